# Prints the numbers of tests, failures and skips of a JUnit file from CTest, which has one <testsuite> with the counts
# as attributes.
/<testsuite/, />/ {
  while (match($0, /[a-z]+="[0-9]+"/)) {
    split(substr($0, RSTART, RLENGTH), part, /="|"/)
    count[part[1]] = part[2]
    $0 = substr($0, RSTART + RLENGTH)
  }
}
END {
  if (!("tests" in count)) exit 1
  print count["tests"], count["failures"] + 0, count["skipped"] + count["disabled"]
}

# Reads a machine's APT sources (files *.list and *.sources), and prints a source of bookworm-backports to add: first
# the name of the new file, then its text. The text follows the machine's own source of bookworm, so that mirror and
# keys stay the same. Prints nothing if such a source exists already, or if the machine has no source of bookworm.

function end_of_stanza() {
  if (enabled && suites ~ /(^|[ \t])bookworm-backports([ \t]|$)/) present = 1
  if (enabled && suites ~ /(^|[ \t])bookworm([ \t]|$)/ && model == "") model = kept
  suites = kept = ""
  keeping = 0
  enabled = 1
}

FNR == 1 { end_of_stanza() }

FILENAME ~ /\.sources$/ {
  if (/^#/) next
  if (/^[ \t]*$/) { end_of_stanza(); next }
  if (!/^[ \t]/) keeping = tolower($1) ~ /^(uris|signed-by|trusted):$/
  if (keeping) kept = kept $0 "\n"  # the field itself may contain a key, over several lines
  if (tolower($1) == "suites:") suites = $0
  if (tolower($1) == "enabled:" && tolower($2) == "no") enabled = 0
  next
}

$1 == "deb" {
  rest = $0
  options = ""
  sub(/^[ \t]*deb[ \t]+/, "", rest)
  if (match(rest, /^\[[^]]*\][ \t]+/)) {
    options = substr(rest, 1, RLENGTH)
    rest = substr(rest, RLENGTH + 1)
  }
  split(rest, word, /[ \t]+/)
  if (word[2] == "bookworm-backports") present = 1
  if (word[2] == "bookworm" && line == "") line = "deb " options word[1] " bookworm-backports main"
}

END {
  end_of_stanza()
  if (present) exit
  if (model != "")
    printf "bookworm-backports.sources\nTypes: deb\n%sSuites: bookworm-backports\nComponents: main\n", model
  else if (line != "") print "bookworm-backports.list\n" line
}

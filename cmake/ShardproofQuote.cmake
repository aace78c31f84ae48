# Quotes text for files that CMake or CTest reads.

# Sets `result` to code for CMake that has exactly this text as one argument, whatever characters the text has.
function(shardproof_quote result text)
  set(equals "=")
  # the first end of the argument must be ours
  string(LENGTH "${text}" length)
  set(at -1)
  while(NOT at EQUAL length)
    set(end "]${equals}]")
    string(FIND "${text}${end}" "${end}" at)
    set(quoted "[${equals}[${text}${end}")
    string(APPEND equals "=")
  endwhile()
  set(${result} "${quoted}" PARENT_SCOPE)
endfunction()

# Run by the install script. Installed pages link to no source file, because none is installed:
# `[text](../harness/a.hpp)` becomes `text`.
file(GLOB_RECURSE pages "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${SHARDPROOF_PAGES}/*.md")
set(source "(harness|launcher|reports|fixtures|worker|tests|bench|cmake|scripts|examples)(/[^)]*)?")
set(of_suite "suites(/[a-z_]+)?(/[A-Za-z_]+\\.(cpp|hpp|txt|json))?")
foreach(page IN LISTS pages)
  file(READ "${page}" text)
  string(REGEX REPLACE "\\[([^]\n]*)\\]\\((\\.\\./)*(${source}|${of_suite})\\)" "\\1" unlinked "${text}")
  if(NOT unlinked STREQUAL text)
    file(WRITE "${page}" "${unlinked}")
  endif()
endforeach()

# The functions that declare tests. Every test belongs to one of three sets, which is its label in CTest:
#   unit    tests the code of one folder. `./test` runs it in the build with AddressSanitizer.
#   system  tests whole programs, as users run them. `./test` runs it in the release build.
#   long    is slow, and seldom fails. Only `./test --all` runs it, which runs all three sets in every build.
# A target `SET_tests` builds what a set needs: unit_tests and system_tests. The target `all` builds everything.
add_custom_target(unit_tests)
add_custom_target(system_tests)

# Builds the programs that a test runs together with its set. shardproof_test_needs(set target…)
function(shardproof_test_needs set)
  if(ARGN AND NOT set STREQUAL "long")
    add_dependencies(${set}_tests ${ARGN})
  endif()
endfunction()

# A test program of one room. Each of its cases is a test of CTest, `room: case`. With LONG_CASES, cases with the tag
# [long] are in the set `long`.
# shardproof_test(name [LONG_CASES] [SET unit|system] SOURCES … LINK … ENVIRONMENT name=value …)
function(shardproof_test name)
  cmake_parse_arguments(TEST "LONG_CASES" "SET" "SOURCES;LINK;ENVIRONMENT" ${ARGN})
  if(NOT TEST_SET)
    set(TEST_SET unit)
  endif()
  add_executable(test_${name} ${TEST_SOURCES})
  target_link_libraries(test_${name} PRIVATE shardproof_options ${TEST_LINK} Catch2::Catch2WithMain)
  target_precompile_headers(test_${name} REUSE_FROM shardproof_test_headers)
  shardproof_test_needs(${TEST_SET} test_${name})
  set(environment)
  if(TEST_ENVIRONMENT)
    set(environment ENVIRONMENT "${TEST_ENVIRONMENT}")
  endif()
  # CTest lists the cases when it starts, and not when the program is built. So a program that cannot list its cases is
  # a failed test, and not a failed build.
  set(discovery TEST_PREFIX "${name}: " DISCOVERY_MODE PRE_TEST WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
  if(TEST_LONG_CASES)
    catch_discover_tests(test_${name} ${discovery} TEST_SPEC "[long]" PROPERTIES TIMEOUT 900 LABELS long ${environment})
    list(APPEND discovery TEST_SPEC "~[long]")
  endif()
  catch_discover_tests(test_${name} ${discovery} PROPERTIES TIMEOUT 300 LABELS ${TEST_SET} ${environment})
endfunction()

# Gives a test program the paths of programs and libraries that it plays, as strings, and builds them before it.
# shardproof_test_plays(target MACRO=target …)
function(shardproof_test_plays test)
  foreach(played IN LISTS ARGN)
    string(REGEX MATCH "^([^=]+)=(.+)$" matched "${played}")
    target_compile_definitions(${test} PRIVATE "${CMAKE_MATCH_1}=\"$<TARGET_FILE:${CMAKE_MATCH_2}>\"")
    add_dependencies(${test} ${CMAKE_MATCH_2})
  endforeach()
endfunction()

# A test that is a command. Programs that the command names by `$<TARGET_FILE:program>` are built with its set.
# shardproof_command_test(name [SET unit|system|long] [TIMEOUT seconds] [NEEDS target…] [PROPERTIES name value …]
# COMMAND …)
function(shardproof_command_test name)
  cmake_parse_arguments(PARSE_ARGV 1 TEST "" "SET;TIMEOUT" "COMMAND;NEEDS;PROPERTIES")
  if(NOT TEST_SET)
    set(TEST_SET system)
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 900)  # only a hanging test takes longer, even on a busy machine
  endif()
  add_test(NAME "${name}" COMMAND ${TEST_COMMAND})
  set_tests_properties("${name}" PROPERTIES LABELS ${TEST_SET} TIMEOUT ${TEST_TIMEOUT} ${TEST_PROPERTIES})
  string(REGEX MATCHALL "<TARGET(_SONAME)?_FILE:[^>]+>" programs "${TEST_COMMAND}")
  list(TRANSFORM programs REPLACE "<.*:([^>]+)>" "\\1")
  shardproof_test_needs(${TEST_SET} ${programs} ${TEST_NEEDS})
endfunction()

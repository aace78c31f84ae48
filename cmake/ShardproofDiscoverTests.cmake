# CTest tests for the cases of a program. The package has this file, and a project around this tree has it, too.
#
#   shardproof_discover_tests(target [RANKS n…] [FILTER filter…] [DEVICE sim|cuda] [EXTRA_ARGS argument…]
#     [TEST_PREFIX text] [TEST_SUFFIX text] [WORKING_DIRECTORY folder] [PROPERTIES name value…]
#     [DISCOVERY_MODE POST_BUILD|PRE_TEST])
#
# Each case is a test of CTest, which `shardproof run` runs. docs/ctest.md explains the options and the properties of a
# test. The function may be called several times for one target.
include_guard(GLOBAL)
cmake_policy(VERSION 3.25)
include("${CMAKE_CURRENT_LIST_DIR}/ShardproofQuote.cmake")

set(_shardproof_list_cases "${CMAKE_CURRENT_LIST_DIR}/ShardproofListCases.cmake" CACHE INTERNAL
  "the script that turns a program's cases into tests of CTest")

# Programs that link the library can find the launcher at this path, if a user starts them without it. The library
# itself has no path: each program compiles a source file with the path.
# shardproof_programs_know_launcher(library path)
function(shardproof_programs_know_launcher library path)
  set(source "${CMAKE_CURRENT_BINARY_DIR}/shardproof_launcher_path.cpp")
  file(CONFIGURE OUTPUT "${source}" @ONLY CONTENT [=[
// The launcher that this program becomes, if a user starts it without one (harness/runner/launcher_search.hpp).
extern "C" {
extern const char shardproof_launcher_path[];
const char shardproof_launcher_path[] = R"path(@path@)path";
}
]=])
  target_sources(${library} INTERFACE
    "$<BUILD_INTERFACE:$<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:${source}>>")
endfunction()

function(shardproof_discover_tests target)
  set(one_value TEST_PREFIX TEST_SUFFIX DEVICE WORKING_DIRECTORY DISCOVERY_MODE)
  set(several_values RANKS FILTER EXTRA_ARGS PROPERTIES)
  cmake_parse_arguments(PARSE_ARGV 1 DISCOVER "" "${one_value}" "${several_values}")
  set(here "shardproof_discover_tests(${target})")
  if(NOT TARGET ${target})
    message(FATAL_ERROR "${here}: there is no target ${target}: call add_executable first")
  endif()
  if(DISCOVER_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${here}: unknown arguments: ${DISCOVER_UNPARSED_ARGUMENTS}")
  endif()
  foreach(number IN LISTS DISCOVER_RANKS)
    if(NOT number MATCHES "^[1-9][0-9]*$")
      message(FATAL_ERROR "${here}: RANKS ${number} is not a number of ranks")
    endif()
  endforeach()
  if(NOT DEFINED DISCOVER_DEVICE)
    set(DISCOVER_DEVICE sim)
  elseif(NOT DISCOVER_DEVICE MATCHES "^(sim|cuda)$")
    message(FATAL_ERROR "${here}: DEVICE ${DISCOVER_DEVICE} is neither sim nor cuda")
  endif()
  if(NOT DEFINED DISCOVER_DISCOVERY_MODE)
    set(DISCOVER_DISCOVERY_MODE POST_BUILD)
  elseif(NOT DISCOVER_DISCOVERY_MODE MATCHES "^(POST_BUILD|PRE_TEST)$")
    message(FATAL_ERROR "${here}: DISCOVERY_MODE ${DISCOVER_DISCOVERY_MODE} is neither POST_BUILD nor PRE_TEST")
  endif()
  if(NOT DEFINED DISCOVER_WORKING_DIRECTORY)
    set(DISCOVER_WORKING_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}")
  endif()
  list(LENGTH DISCOVER_PROPERTIES length)
  math(EXPR odd "${length} % 2")
  if(odd)
    message(FATAL_ERROR "${here}: PROPERTIES needs a value for each name")
  endif()

  # Each call has its own files.
  get_property(calls TARGET ${target} PROPERTY SHARDPROOF_DISCOVERIES)
  math(EXPR calls "0${calls} + 1")
  set_property(TARGET ${target} PROPERTY SHARDPROOF_DISCOVERIES ${calls})
  get_property(is_multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  set(base "${CMAKE_CURRENT_BINARY_DIR}/shardproof-tests/${target}-${calls}")
  set(in_build "${base}")
  set(in_ctest "${base}")
  if(is_multi_config)
    set(in_build "${base}-$<CONFIG>")
    set(in_ctest "${base}-\${CTEST_CONFIGURATION_TYPE}")
  endif()

  # The script reads its settings from this file.
  set(settings "# The settings of ShardproofListCases.cmake.\n")
  set(DISCOVER_TARGET "${target}")
  set(DISCOVER_CMAKE "${CMAKE_COMMAND}")  # CTest does not know it
  set(DISCOVER_PROGRAM "$<TARGET_FILE:${target}>")
  set(DISCOVER_LAUNCHER "$<TARGET_FILE:shardproof::launcher>")
  set(DISCOVER_TESTS "${in_build}-tests.cmake")
  set(DISCOVER_RESULTS "${base}")
  foreach(name TARGET CMAKE PROGRAM LAUNCHER TESTS RESULTS ${one_value})
    shardproof_quote(value "${DISCOVER_${name}}")
    string(APPEND settings "set(DISCOVER_${name} ${value})\n")
  endforeach()
  foreach(name IN LISTS several_values)
    string(APPEND settings "set(DISCOVER_${name}")
    foreach(value IN LISTS DISCOVER_${name})
      string(REPLACE ";" "\\;" value "${value}")  # an element that is itself a list stays one element
      shardproof_quote(value "${value}")
      string(APPEND settings " ${value}")
    endforeach()
    string(APPEND settings ")\n")
  endforeach()
  file(GENERATE OUTPUT "${in_build}-settings.cmake" CONTENT "${settings}")

  add_dependencies(${target} shardproof::launcher)
  if(DISCOVER_DISCOVERY_MODE STREQUAL "POST_BUILD")
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${in_build}-settings.cmake")
    add_custom_command(TARGET ${target} POST_BUILD VERBATIM
      COMMAND "${CMAKE_COMMAND}" -D "SETTINGS=${in_build}-settings.cmake" -P "${_shardproof_list_cases}")
  endif()
  shardproof_quote(script "${_shardproof_list_cases}")
  file(WRITE "${base}-include.cmake" "# CTest reads this file.
set(SETTINGS \"${in_ctest}-settings.cmake\")
include(${script})
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${base}-include.cmake")
endfunction()

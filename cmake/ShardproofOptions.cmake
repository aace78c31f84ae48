# How everything is compiled, in one interface target.
option(SHARDPROOF_TESTS "Build the project's own tests" ON)
option(SHARDPROOF_BENCH "Build the benchmark programs" OFF)
option(SHARDPROOF_FUZZ "Build the fuzzers (Clang only)" OFF)
set(SHARDPROOF_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE}")
endif()

add_library(shardproof_options INTERFACE)
target_compile_features(shardproof_options INTERFACE cxx_std_20)
target_include_directories(shardproof_options INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/harness")
# Reports are equal byte for byte between machines: no fused multiply-add where the source has none.
target_compile_options(shardproof_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -ffp-contract=off)
if(SHARDPROOF_SANITIZE)
  target_compile_options(shardproof_options INTERFACE "-fsanitize=${SHARDPROOF_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(shardproof_options INTERFACE "-fsanitize=${SHARDPROOF_SANITIZE}")
else()
  # Half of a rank's start-up time would go into loading libstdc++.
  target_link_options(shardproof_options INTERFACE -static-libstdc++ -static-libgcc)
endif()

# A room: a static library of its own with the project's options. shardproof_room(name SOURCES … LINK …)
function(shardproof_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINK" ${ARGN})
  add_library(shardproof_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(shardproof_${name} PUBLIC shardproof_options ${ROOM_LINK})
endfunction()

# A test program of one room, registered with CTest case by case. shardproof_test(name SOURCES … LINK …)
function(shardproof_test name)
  cmake_parse_arguments(TEST "" "" "SOURCES;LINK" ${ARGN})
  add_executable(test_${name} ${TEST_SOURCES})
  target_link_libraries(test_${name} PRIVATE shardproof_options ${TEST_LINK} Catch2::Catch2WithMain)
  add_test(NAME ${name} COMMAND test_${name} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}")
endfunction()

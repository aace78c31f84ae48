# The compile options of this tree, and the functions that declare its rooms (static libraries).
option(SHARDPROOF_TESTS "Build the project's own tests" ${PROJECT_IS_TOP_LEVEL})
option(SHARDPROOF_BENCH "Build the benchmark programs" OFF)
set(SHARDPROOF_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")

# A project around this one chooses its own build type.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without this sloppiness ccache caches no file that reads a precompiled header. Ours contain no __DATE__, and macros
  # are in the command line. CCACHE_DEPEND uses the dependencies that the compiler writes anyway. So ccache does not run
  # the preprocessor for each file that is not in the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND};-E;env;CCACHE_DEPEND=1;CCACHE_SLOPPINESS=pch_defines,time_macros;${CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE}")
endif()

# The options that a program needs to use the library. All options below this target apply only to our own files.
add_library(shardproof_options INTERFACE)
target_compile_features(shardproof_options INTERFACE cxx_std_20)
target_include_directories(shardproof_options INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/harness>"
  "$<INSTALL_INTERFACE:include/shardproof>" "$<INSTALL_INTERFACE:include/shardproof/harness>")

# Adds options for the host's compiler only, because nvcc has its own options. shardproof_compile_options(option…)
function(shardproof_compile_options)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()

# Rooms go into programs and into shared objects. Both need the same option, because precompiled headers require it.
unset(CMAKE_POSITION_INDEPENDENT_CODE)
shardproof_compile_options(-fPIC)

# A designated initializer omits members on purpose: they have their defaults.
shardproof_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers)
# No -Wpedantic for code that nvcc passes to the host's compiler, because nvcc's own code violates it.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion>")
if(PROJECT_IS_TOP_LEVEL)
  shardproof_compile_options(-Werror)
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  shardproof_compile_options(-Wno-restrict)  # GCC bug 105651: false alarms in std::string's own operator+
endif()
# Presets compile twenty files of a target at a time, because most compile time goes into common headers. Each file must
# also compile alone, as it does for users who embed this tree and in the presets `dev`, `tidy` and `bench`.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 20)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # In a unity build, GCC takes the anonymous namespace of a file for a header's.
  shardproof_compile_options(-Wno-subobject-linkage)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # std::stable_sort of libstdc++ 12 calls a deprecated function. The golden files are longer than the longest string
  # literal that every compiler must accept.
  shardproof_compile_options(-Wno-deprecated-declarations -Wno-overlength-strings)
endif()
# Reports must be equal byte for byte between machines, so the compiler must not fuse multiplications and additions.
shardproof_compile_options(-ffp-contract=off)
# Binaries contain no path of the build machine. Ranks compare build ids to check that they come from one build.
shardproof_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>")
add_link_options(-Wl,--build-id=sha1)
if(SHARDPROOF_SANITIZE)
  shardproof_compile_options("-fsanitize=${SHARDPROOF_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options("-fsanitize=${SHARDPROOF_SANITIZE}")
  # libFuzzer comes with Clang. This option lets it see the branches that an input takes. It does not affect other
  # programs.
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND SHARDPROOF_SANITIZE MATCHES "address")
    set(SHARDPROOF_FUZZ ON)
    shardproof_compile_options(-fsanitize=fuzzer-no-link)
  endif()
else()
  # Loading a shared libstdc++ would take half of a rank's start-up time. Loading libgcc does not, and a process must
  # have exactly one. It unwinds an exception from a subject's shared object to the harness, which catches it.
  add_link_options(-static-libstdc++)
endif()

# Precompiled headers, because a compiler would spend most of its time on the same headers. They are compiled once for
# rooms, once with Catch2 for targets with cases, and once more for tests, which have other options
# (tests/CMakeLists.txt). Files must compile without them, because users who embed this tree may have
# CMAKE_DISABLE_PRECOMPILE_HEADERS. The presets `tidy` and `bench` have it, too.
set(SHARDPROOF_HEADERS <algorithm> <array> <chrono> <filesystem> <functional> <map> <optional> <span> <stdexcept>
  <string> <vector> <fmt/format.h>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Not for GCC: loading the larger precompiled header would take it longer than reading the rest.
  list(APPEND SHARDPROOF_HEADERS <nlohmann/json.hpp>)
endif()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/headers.cpp" CONTENT "// Nothing but its precompiled headers.\n")
function(shardproof_precompile name)
  cmake_parse_arguments(PRECOMPILE "" "" "HEADERS;LINK" ${ARGN})
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/headers.cpp")
  target_link_libraries(${name} PRIVATE shardproof_options nlohmann_json::nlohmann_json shardproof_fmt
    ${PRECOMPILE_LINK})
  target_precompile_headers(${name} PRIVATE ${SHARDPROOF_HEADERS} ${PRECOMPILE_HEADERS})
endfunction()
shardproof_precompile(shardproof_headers)
function(shardproof_precompile_cases name)
  shardproof_precompile(${name}
    HEADERS <catch2/catch_test_macros.hpp> <catch2/generators/catch_generators.hpp>
    <catch2/matchers/catch_matchers_string.hpp>
    LINK Catch2::Catch2)
endfunction()
shardproof_precompile_cases(shardproof_case_headers)

# A room: a static library with the project's options. shardproof_room(name SOURCES … LINK …)
function(shardproof_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINK" ${ARGN})
  add_library(shardproof_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(shardproof_${name} PUBLIC shardproof_options ${ROOM_LINK})
  target_precompile_headers(shardproof_${name} REUSE_FROM shardproof_headers)
endfunction()

# Optimizes a target more than the rest of the build, because tests spend much of their time in it.
# shardproof_is_hot(target)
function(shardproof_is_hot target)
  if(SHARDPROOF_SANITIZE)
    target_compile_options(${target} PRIVATE -O1)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
  endif()
  # a precompiled header fits only one optimization level
  set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
endfunction()

# Builds a library or program without a sanitizer, for processes without one. shardproof_goes_into_others(target)
function(shardproof_goes_into_others target)
  if(SHARDPROOF_SANITIZE)
    target_compile_options(${target} PRIVATE -fno-sanitize=all)
    target_link_options(${target} PRIVATE -fno-sanitize=all)
  endif()
endfunction()

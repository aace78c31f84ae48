# How this tree is compiled, and the functions by which its rooms and their tests are declared.
option(SHARDPROOF_TESTS "Build the project's own tests" ${PROJECT_IS_TOP_LEVEL})
option(SHARDPROOF_BENCH "Build the benchmark programs" OFF)
set(SHARDPROOF_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")

# A project around this one chooses for itself.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Without this sloppiness it keeps nothing that reads a precompiled header; ours contain no __DATE__, and macros are in the command line. By
  # the dependencies that the compiler writes anyway it spares a run of the preprocessor for each file that it does not have.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND};-E;env;CCACHE_DEPEND=1;CCACHE_SLOPPINESS=pch_defines,time_macros;${CCACHE}")
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE}")
endif()

# What a program that uses the library has to know; everything below this target concerns our own files only.
add_library(shardproof_options INTERFACE)
target_compile_features(shardproof_options INTERFACE cxx_std_20)
target_include_directories(shardproof_options INTERFACE
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/harness>"
  "$<INSTALL_INTERFACE:include/shardproof>" "$<INSTALL_INTERFACE:include/shardproof/harness>")

# For what the host's compiler compiles: nvcc has options of its own. shardproof_compile_options(option…)
function(shardproof_compile_options)
  add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${ARGN}>")
endfunction()

# Rooms go into programs and into shared objects: one level for both, or the headers that are read once would not fit.
unset(CMAKE_POSITION_INDEPENDENT_CODE)
shardproof_compile_options(-fPIC)

# A designated initializer leaves members out on purpose: they have their defaults.
shardproof_compile_options(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers)
# What nvcc hands to the host's compiler is not meant to be pedantic.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion>")
if(PROJECT_IS_TOP_LEVEL)
  shardproof_compile_options(-Werror)
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  shardproof_compile_options(-Wno-restrict)  # GCC bug 105651: false alarms in std::string's own operator+
endif()
# Presets compile twenty files of a target at a time, because most compile time goes into headers that all files include. Files must compile alone as
# well, as they do for users who embed this tree and in the presets `dev`, `tidy` and `bench`.
set(CMAKE_UNITY_BUILD_BATCH_SIZE 20)
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  shardproof_compile_options(-Wno-subobject-linkage)  # what stands in a file's own anonymous namespace looks to it as if a header had it
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # libstdc++ 12's own std::stable_sort calls what it deprecates; and the golden files are longer than a string that every compiler must take.
  shardproof_compile_options(-Wno-deprecated-declarations -Wno-overlength-strings)
endif()
# Reports are equal byte for byte between machines: no fused multiply-add where the source has none.
shardproof_compile_options(-ffp-contract=off)
# No path of the machine that built it goes into a binary; ranks compare build ids to know that they are of one build.
shardproof_compile_options("-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=")
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>")
add_link_options(-Wl,--build-id=sha1)
if(SHARDPROOF_SANITIZE)
  shardproof_compile_options("-fsanitize=${SHARDPROOF_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options("-fsanitize=${SHARDPROOF_SANITIZE}")
  # libFuzzer comes with Clang: what it is to explore is compiled so that it sees which branches an input takes. Others do not notice.
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND SHARDPROOF_SANITIZE MATCHES "address")
    set(SHARDPROOF_FUZZ ON)
    shardproof_compile_options(-fsanitize=fuzzer-no-link)
  endif()
else()
  # Half of a rank's start-up time would go into loading libstdc++. Not so libgcc, and there has to be one in a process: what a subject throws in
  # a shared object of its own is unwound by one, and caught by the harness.
  add_link_options(-static-libstdc++)
endif()

# Most of a compiler's time would go into reading the same headers again. They are read once for rooms, once with Catch2 for what contains
# cases, and once more for tests, which are compiled otherwise (tests/CMakeLists.txt). Files must compile without them: users who embed this
# tree may have CMAKE_DISABLE_PRECOMPILE_HEADERS, as the presets `tidy` and `bench`.
set(SHARDPROOF_HEADERS <algorithm> <array> <chrono> <filesystem> <functional> <map> <optional> <span> <stdexcept> <string> <vector> <fmt/format.h>)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND SHARDPROOF_HEADERS <nlohmann/json.hpp>)  # with it, GCC takes longer to load what it has read than to read the rest
endif()
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/headers.cpp" CONTENT "// Nothing but its precompiled headers.\n")
function(shardproof_precompile name)
  cmake_parse_arguments(PRECOMPILE "" "" "HEADERS;LINK" ${ARGN})
  add_library(${name} OBJECT EXCLUDE_FROM_ALL "${PROJECT_BINARY_DIR}/headers.cpp")
  target_link_libraries(${name} PRIVATE shardproof_options nlohmann_json::nlohmann_json shardproof_fmt ${PRECOMPILE_LINK})
  target_precompile_headers(${name} PRIVATE ${SHARDPROOF_HEADERS} ${PRECOMPILE_HEADERS})
endfunction()
shardproof_precompile(shardproof_headers)
function(shardproof_precompile_cases name)
  shardproof_precompile(${name}
    HEADERS <catch2/catch_test_macros.hpp> <catch2/generators/catch_generators.hpp> <catch2/matchers/catch_matchers_string.hpp>
    LINK Catch2::Catch2)
endfunction()
shardproof_precompile_cases(shardproof_case_headers)

# A room: a static library of its own with the project's options. shardproof_room(name SOURCES … LINK …)
function(shardproof_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;LINK" ${ARGN})
  add_library(shardproof_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(shardproof_${name} PUBLIC shardproof_options ${ROOM_LINK})
  target_precompile_headers(shardproof_${name} REUSE_FROM shardproof_headers)
endfunction()

# A target that tests spend much of their time in: the compiler optimizes it more than the rest of the build. shardproof_is_hot(target)
function(shardproof_is_hot target)
  if(SHARDPROOF_SANITIZE)
    target_compile_options(${target} PRIVATE -O1)
  else()
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O3>)
  endif()
  set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)  # precompiled headers fit one level of optimization only
endfunction()

# A library or program in processes that have no sanitizer: built without one. shardproof_goes_into_others(target)
function(shardproof_goes_into_others target)
  if(SHARDPROOF_SANITIZE)
    target_compile_options(${target} PRIVATE -fno-sanitize=all)
    target_link_options(${target} PRIVATE -fno-sanitize=all)
  endif()
endfunction()

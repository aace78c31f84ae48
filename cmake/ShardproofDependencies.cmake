# The libraries that this project needs. CMake takes each library from the system. If the system's library is missing or
# too old, CMake downloads a release archive and checks its hash, except for DLPack's header. A system with all
# libraries needs no download. CUDA and NCCL are never required.
include(FetchContent)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # rooms link the libraries built here, and go into shared objects
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)  # a project with this tree as a subdirectory links our targets' libraries

# shardproof_dependency(package version ARCHIVE url SHA256 hash [SETTINGS name=value…])
# The settings apply if this project builds the package.
macro(shardproof_dependency package version)
  cmake_parse_arguments(DEPENDENCY "" "ARCHIVE;SHA256" "SETTINGS" ${ARGN})
  find_package(${package} ${version} QUIET)
  if(${package}_FOUND)
    message(STATUS "${package} ${${package}_VERSION}: ${${package}_DIR}")
  else()
    message(STATUS "${package} ${version} or later is not installed: downloading ${DEPENDENCY_ARCHIVE}")
    foreach(setting IN LISTS DEPENDENCY_SETTINGS)
      string(REPLACE "=" ";" setting "${setting}")
      list(GET setting 0 setting_name)
      list(GET setting 1 setting_value)
      set(${setting_name} ${setting_value} CACHE BOOL "" FORCE)
    endforeach()
    FetchContent_Declare(${package} SYSTEM URL "${DEPENDENCY_ARCHIVE}" URL_HASH "SHA256=${DEPENDENCY_SHA256}"
      DOWNLOAD_EXTRACT_TIMESTAMP OFF)
    FetchContent_MakeAvailable(${package})
    list(APPEND SHARDPROOF_DOWNLOADED ${package})
  endif()
endmacro()

find_package(Threads REQUIRED)
shardproof_dependency(Catch2 3.4
  ARCHIVE https://github.com/catchorg/Catch2/archive/refs/tags/v3.7.1.tar.gz
  SHA256 c991b247a1a0d7bb9c39aa35faf0fe9e19764213f28ffba3109388e62ee0269c)
shardproof_dependency(CLI11 2
  ARCHIVE https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.4.2.tar.gz
  SHA256 f2d893a65c3b1324c50d4e682c0cdc021dd0477ae2c048544f39eed6654b699a
  SETTINGS CLI11_BUILD_TESTS=OFF CLI11_BUILD_EXAMPLES=OFF)
shardproof_dependency(nlohmann_json 3.9
  ARCHIVE https://github.com/nlohmann/json/releases/download/v3.11.2/json.tar.xz
  SHA256 8c4b26bf4b422252e13f332bc5e388ec0ab5c3443d24399acb675e68278d341f)
shardproof_dependency(fmt 9
  ARCHIVE https://github.com/fmtlib/fmt/archive/refs/tags/9.1.0.tar.gz
  SHA256 5dea48d1fcddc3ec571ce2058e13910a0d4a6bab4cc09a809d8b1dd1c88ae6f2)
shardproof_dependency(Eigen3 3.4
  ARCHIVE https://gitlab.com/libeigen/eigen/-/archive/3.4.0/eigen-3.4.0.tar.gz
  SHA256 8586084f71f9bde545ee7fa6d00288b264a2b7ac3607b974e54d13e7162c1c72
  SETTINGS BUILD_TESTING=OFF EIGEN_BUILD_DOC=OFF EIGEN_BUILD_PKGCONFIG=OFF)

# A program that links our libraries needs these libraries as well. CLI11 is in the launcher only.
set(SHARDPROOF_LINKED_DOWNLOADS ${SHARDPROOF_DOWNLOADED})
list(REMOVE_ITEM SHARDPROOF_LINKED_DOWNLOADS CLI11)

# DLPack is one header. Its archives have no hash that CMake could check.
find_package(dlpack CONFIG QUIET)
if(dlpack_FOUND)
  message(STATUS "dlpack: ${dlpack_DIR}")
else()
  message(FATAL_ERROR
    "The header of DLPack is not installed. Subjects in C get their tensors in its types. "
    "On Debian, install the package libdlpack-dev. Elsewhere, install "
    "https://github.com/dmlc/dlpack with its CMake, and add its folder to CMAKE_PREFIX_PATH.")
endif()

# Optional: with mimalloc, a run of all suites takes a quarter less time.
find_package(mimalloc 2 QUIET)

# Optional: with libdw of elfutils, the launcher names the functions of a rank that crashed.
find_path(LIBDW_INCLUDE_DIR elfutils/libdwfl.h)
find_library(LIBDW_LIBRARY dw)
mark_as_advanced(LIBDW_INCLUDE_DIR LIBDW_LIBRARY)
if(LIBDW_INCLUDE_DIR AND LIBDW_LIBRARY)
  add_library(shardproof_libdw INTERFACE)
  target_include_directories(shardproof_libdw SYSTEM INTERFACE "${LIBDW_INCLUDE_DIR}")
  target_link_libraries(shardproof_libdw INTERFACE "${LIBDW_LIBRARY}")
  message(STATUS "libdw: ${LIBDW_LIBRARY}")
else()
  message(STATUS "libdw is not installed (Debian: libdw-dev): crashes are reported without stacks")
endif()

# fmt is compiled once and linked statically, for any form of the system's fmt.
get_target_property(fmt_kind fmt::fmt TYPE)
if(fmt_kind STREQUAL "STATIC_LIBRARY")
  add_library(shardproof_fmt INTERFACE)
  target_link_libraries(shardproof_fmt INTERFACE fmt::fmt)
elseif(fmt_VERSION VERSION_LESS 10)
  add_library(shardproof_fmt STATIC cmake/fmt.cpp)
  target_compile_features(shardproof_fmt PUBLIC cxx_std_20)
  target_include_directories(shardproof_fmt SYSTEM PUBLIC "$<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>")
else()
  add_library(shardproof_fmt INTERFACE)
  target_link_libraries(shardproof_fmt INTERFACE fmt::fmt-header-only)
endif()

if(catch2_SOURCE_DIR)
  list(APPEND CMAKE_MODULE_PATH "${catch2_SOURCE_DIR}/extras")
endif()
include(Catch)  # catch_discover_tests

# The GPU backend is a separate shared object that is loaded at run time. It is built if these packages are present. No
# other target uses them.
find_package(CUDAToolkit 12 QUIET)  # CUDA 12 is the first version whose nvcc compiles C++20
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} NO_CMAKE_ENVIRONMENT_PATH)
find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
find_path(CUPTI_INCLUDE_DIR cupti.h HINTS ${CUDAToolkit_CUPTI_INCLUDE_DIR} ${CUDAToolkit_INCLUDE_DIRS}
  NO_CMAKE_ENVIRONMENT_PATH)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY CUPTI_INCLUDE_DIR)
set(SHARDPROOF_CUDA OFF)
if(CUDAToolkit_FOUND AND NCCL_INCLUDE_DIR AND NCCL_LIBRARY AND NOT SHARDPROOF_SANITIZE)  # for host code only
  include(CheckLanguage)
  check_language(CUDA)  # without nvcc, enable_language would end the configuration
  if(CMAKE_CUDA_COMPILER)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
      # nvcc compiles for Hopper. For other GPUs from Turing on, the driver compiles once, when it loads the module.
      # Each further architecture would take as long to compile as the first.
      set(CMAKE_CUDA_ARCHITECTURES 75-virtual 90-real)
    endif()
    enable_language(CUDA)
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      # CMake 3.25 does not know that nvcc compiles C++20.
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
      list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
      set(CMAKE_CUDA20_COMPILE_FEATURES cuda_std_20)
    endif()
    set(SHARDPROOF_CUDA ON)
  endif()
endif()
if(SHARDPROOF_CUDA)
  message(STATUS "CUDA ${CMAKE_CUDA_COMPILER_VERSION} (${CMAKE_CUDA_COMPILER}) and NCCL (${NCCL_LIBRARY}) are present")
else()
  message(STATUS "No CUDA 12 compiler with NCCL: simulated devices only")
endif()

# The fabric mpi loads a shared object at run time, and each MPI library needs its own one, because their ABIs differ.
# This function looks for the library's compiler wrapper. It makes the target shardproof_<library> from the options that
# the wrapper would pass to the compiler.
# shardproof_find_mpi(library version_option pattern compile_option link_option)
function(shardproof_find_mpi library version_option pattern compile_option link_option)
  string(TOUPPER ${library} upper)
  find_program(${upper}_CC NAMES mpicc.${library} mpicc)
  find_program(${upper}_RUN NAMES mpirun.${library} mpirun)  # for tests
  mark_as_advanced(${upper}_CC ${upper}_RUN)
  if(NOT ${upper}_CC)
    return()
  endif()
  execute_process(COMMAND "${${upper}_CC}" ${version_option} OUTPUT_VARIABLE version ERROR_VARIABLE version)
  if(NOT version MATCHES "${pattern}")
    return()  # `mpicc` of another library
  endif()
  set(found ${CMAKE_MATCH_1})
  execute_process(COMMAND "${${upper}_CC}" ${compile_option} OUTPUT_VARIABLE compile OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND "${${upper}_CC}" ${link_option} OUTPUT_VARIABLE link OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REGEX MATCHALL "(^| )-I[^ ]+" includes "${compile}")
  list(TRANSFORM includes REPLACE "^ ?-I" "")
  string(REGEX MATCHALL "(^| )(-L|-l|-Wl,-rpath)[^ ]+" libraries "${link}")
  list(TRANSFORM libraries STRIP)
  add_library(shardproof_${library} INTERFACE)
  target_include_directories(shardproof_${library} SYSTEM INTERFACE ${includes})
  target_link_libraries(shardproof_${library} INTERFACE ${libraries})
  message(STATUS "MPI: ${library} ${found} (${${upper}_CC})")
  set(SHARDPROOF_MPI_LIBRARIES ${SHARDPROOF_MPI_LIBRARIES} ${library} PARENT_SCOPE)
endfunction()
set(SHARDPROOF_MPI_LIBRARIES)
shardproof_find_mpi(openmpi --showme:version "Open MPI ([0-9.]+)" --showme:compile --showme:link)
shardproof_find_mpi(mpich -v "MPICH version ([0-9.]+)" -compile_info -link_info)

# Makes packages with CPack, from a built tree:
#     cpack --config build/CPackConfig.cmake          a Debian package of everything that `cmake --install` installs
#     cpack --config build/CPackSourceConfig.cmake    an archive of the last commit, with its version in its name

# CPack installs what ./run has built. Without these settings it would build the tests first. With Makefiles, CPack
# calls `make preinstall`, and the second setting is for that. `make install` then does not build either.
set(CMAKE_SKIP_PACKAGE_ALL_DEPENDENCY ON)
if(CMAKE_GENERATOR MATCHES "Makefiles")
  set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
endif()

set(CPACK_PACKAGE_CONTACT "The shardproof authors <shardproof@example.invalid>")
set(CPACK_PACKAGE_VENDOR "The shardproof authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Multi-rank tests, and a conformance suite for sharded training engines")
set(CPACK_PACKAGE_DESCRIPTION "shardproof runs C++ test cases on several ranks at once, each rank a real process, \
and names the rank that hangs, crashes or disagrees. On top of it, a conformance suite tests engines that shard \
training over ranks: overlap, order, hooks and values.")
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")

set(CPACK_GENERATOR DEB)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
# dpkg-shlibdeps finds the packages of the shared libraries that the programs load. The GPU backend loads CUDA and NCCL,
# which may be in no package. It stays unused where they are missing.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/lib")
# Programs that link the library need these headers, and find_package(shardproof) fails without them. They are only
# recommended: a machine that runs the suite, or programs built elsewhere, needs none of them, and bookworm itself has
# no Catch2 3. apt installs recommended packages, unless its user refuses. The archives contain code of one minor
# version of Catch2 and of one major version of fmt, so a program must be compiled with the same.
if(NOT SHARDPROOF_LINKED_DOWNLOADS)
  string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" catch2_series "${Catch2_VERSION}")
  math(EXPR after_catch2 "${CMAKE_MATCH_2} + 1")
  set(after_catch2 "${CMAKE_MATCH_1}.${after_catch2}")
  string(REGEX MATCH "^[0-9]+" fmt_series "${fmt_VERSION}")
  math(EXPR after_fmt "${fmt_series} + 1")
  list(APPEND recommended
    "catch2 (>= ${catch2_series})" "catch2 (<< ${after_catch2}~)"
    "libfmt-dev (>= ${fmt_series})" "libfmt-dev (<< ${after_fmt}~)"
    "nlohmann-json3-dev (>= 3.9)" "libeigen3-dev (>= 3.4)" libdlpack-dev g++ "cmake (>= 3.25) | pkgconf")
  list(JOIN recommended ", " CPACK_DEBIAN_PACKAGE_RECOMMENDS)
endif()
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/debian_layout.cmake")

set(CPACK_SOURCE_GENERATOR TGZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME "shardproof-${PROJECT_VERSION}")
set(CPACK_SOURCE_INSTALLED_DIRECTORIES "")
set(CPACK_INSTALL_SCRIPTS "${CMAKE_CURRENT_LIST_DIR}/copy_tracked_files.cmake")
set(CPACK_SHARDPROOF_SOURCE "${PROJECT_SOURCE_DIR}")
include(CPack)

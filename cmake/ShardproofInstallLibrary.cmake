# Installs the libraries and their headers. Another project can then use find_package(shardproof) or pkg-config, and
# link shardproof::main or shardproof::play. For a subject in C it links shardproof::subject and shardproof::worker.
include(CMakePackageConfigHelpers)
include(ShardproofPkgConfig)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/shardproof")

install(TARGETS ${rooms} EXPORT shardproof ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
set_target_properties(shardproof_main PROPERTIES EXPORT_NAME main)
set_target_properties(shardproof_play_main PROPERTIES EXPORT_NAME play)
install(DIRECTORY harness DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/shardproof"
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inc")

install(EXPORT shardproof NAMESPACE shardproof:: FILE shardproof-targets.cmake DESTINATION "${package_dir}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/shardproof-config.cmake.in"
  "${PROJECT_BINARY_DIR}/shardproof-config.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/shardproof-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_LIST_DIR}/ShardproofDiscoverTests.cmake"
  "${CMAKE_CURRENT_LIST_DIR}/ShardproofListCases.cmake" "${CMAKE_CURRENT_LIST_DIR}/ShardproofQuote.cmake"
  DESTINATION "${package_dir}")
install(FILES "${PROJECT_BINARY_DIR}/shardproof-config.cmake" "${PROJECT_BINARY_DIR}/shardproof-config-version.cmake"
  DESTINATION "${package_dir}")
shardproof_pkg_config(shardproof shardproof_main "Multi-rank tests with Catch2")
shardproof_pkg_config(shardproof-play shardproof_play_main
  "Multi-rank tests whose cases play scenarios on devices and engines")

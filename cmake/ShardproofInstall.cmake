# What `cmake --install` puts where, so that a program outside can say find_package(shardproof) and link shardproof::main, or bring a subject in
# C by shardproof::subject and shardproof::worker.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/shardproof")

# The rooms that run inside a rank. One that is missing here fails the configuration, since another links it.
install(TARGETS shardproof_options shardproof_fmt shardproof_protocol shardproof_rendezvous shardproof_tensor shardproof_fabric shardproof_device
  shardproof_trace shardproof_scenario shardproof_subject shardproof_subject_header shardproof_subject_abi shardproof_faults shardproof_world
  shardproof_cases shardproof_main
  EXPORT shardproof ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
set_target_properties(shardproof_main PROPERTIES EXPORT_NAME main)
install(DIRECTORY harness DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/shardproof" FILES_MATCHING PATTERN "*.hpp")
install(FILES harness/subject/shardproof.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/shardproof")
install(FILES harness/subject/shardproof.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/shardproof/harness/subject")
if(TARGET shardproof_worker)
  install(TARGETS shardproof_worker EXPORT shardproof LIBRARY DESTINATION lib)
endif()
install(TARGETS shardproof shardproof-worker shardproof-nccl-tap RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
if(TARGET shardproof_nccl_tap_library)
  install(TARGETS shardproof_nccl_tap_library LIBRARY DESTINATION lib)  # where the launcher looks for it, seen from itself
endif()
if(SHARDPROOF_CUDA)
  install(TARGETS shardproof_cuda LIBRARY DESTINATION lib/shardproof)  # likewise
endif()

# Engines to copy from, and the package that those in Python stand on.
install(DIRECTORY examples DESTINATION "${CMAKE_INSTALL_DATADIR}/shardproof" USE_SOURCE_PERMISSIONS PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY fixtures/pytorch/src/shardproof DESTINATION "${CMAKE_INSTALL_DATADIR}/shardproof/python" FILES_MATCHING PATTERN "*.py")

install(EXPORT shardproof NAMESPACE shardproof:: FILE shardproof-targets.cmake DESTINATION "${package_dir}")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/shardproof-config.cmake.in" "${PROJECT_BINARY_DIR}/shardproof-config.cmake"
  INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/shardproof-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/shardproof-config.cmake" "${PROJECT_BINARY_DIR}/shardproof-config-version.cmake"
  DESTINATION "${package_dir}")

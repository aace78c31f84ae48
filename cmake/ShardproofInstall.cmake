# Defines which files `cmake --install` installs, and where. Another project can then use find_package(shardproof) and
# link shardproof::main or shardproof::play. For a subject in C it links shardproof::subject and shardproof::worker.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)
include(ShardproofPkgConfig)

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/shardproof")

# The libraries that run inside a rank. CMake fails if this list lacks one, because another library links it.
set(rooms shardproof_options shardproof_fmt shardproof_base shardproof_protocol shardproof_control
  shardproof_rendezvous shardproof_tensor shardproof_trace shardproof_fabric shardproof_world shardproof_cases
  shardproof_device shardproof_scenario shardproof_subject shardproof_subject_header shardproof_subject_abi
  shardproof_player shardproof_faults shardproof_runner shardproof_main shardproof_play shardproof_play_main)
set(programs shardproof-worker shardproof-nccl-tap)
# Shared objects that the launcher loads or passes to ranks, if this build has them. The launcher looks for them in
# ../lib/ and ../lib/shardproof/ of its own folder.
foreach(optional IN ITEMS shardproof_worker shardproof_nccl_tap_library shardproof_cuda)
  if(TARGET ${optional})
    list(APPEND plugins ${optional})
  endif()
endforeach()

# Builds everything that the install copies, and nothing else: this is what ./run builds.
add_custom_target(shardproof_package)
add_dependencies(shardproof_package shardproof ${programs} shardproof_main shardproof_play_main ${plugins}
  shardproof_manual)

# A program that links an installed package needs the package's libraries installed as well. Downloaded ones are not.
if(SHARDPROOF_DOWNLOADED)
  install(CODE
    "message(FATAL_ERROR
      \"This build downloaded ${SHARDPROOF_DOWNLOADED}. Install these libraries, delete this build folder, \"
      \"and build again.\")")
  return()
endif()

# An install of a partly built tree would stop half way. This check runs first, and stops the install before it copies a
# file.
foreach(target IN ITEMS shardproof ${rooms} ${programs} ${plugins})
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL "INTERFACE_LIBRARY")
    string(APPEND artifacts "  \"$<TARGET_FILE:${target}>\"\n")
  endif()
endforeach()
string(APPEND artifacts "  \"${SHARDPROOF_MANUAL}/complete\"\n")
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/require_package.cmake" CONTENT "set(artifacts\n${artifacts})
foreach(artifact IN LISTS artifacts)
  if(NOT EXISTS \"\${artifact}\")
    list(APPEND missing \"\${artifact}\")
  endif()
endforeach()
if(missing)
  list(JOIN missing \"\\n  \" missing)
  message(FATAL_ERROR \"Nothing was installed, because these files are not built yet:\\n  \${missing}\\n\"
    \"Build them, then install again: cmake --build ${PROJECT_BINARY_DIR} --target shardproof_package\")
endif()
")
install(SCRIPT "${PROJECT_BINARY_DIR}/require_package.cmake")

install(TARGETS ${rooms} EXPORT shardproof ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
set_target_properties(shardproof_main PROPERTIES EXPORT_NAME main)
set_target_properties(shardproof_play_main PROPERTIES EXPORT_NAME play)
install(DIRECTORY harness DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/shardproof"
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inc")
install(FILES harness/subject/shardproof.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/shardproof")
install(FILES harness/subject/shardproof.h DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/shardproof/harness/subject")
# A program finds the launcher as the target shardproof::launcher.
install(TARGETS shardproof EXPORT shardproof RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
set_target_properties(shardproof PROPERTIES EXPORT_NAME launcher)
install(TARGETS ${programs} RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
if(TARGET shardproof_worker)
  install(TARGETS shardproof_worker EXPORT shardproof LIBRARY DESTINATION lib)
endif()
if(TARGET shardproof_nccl_tap_library)
  install(TARGETS shardproof_nccl_tap_library LIBRARY DESTINATION lib)
endif()
if(TARGET shardproof_cuda)
  install(TARGETS shardproof_cuda LIBRARY DESTINATION lib/shardproof)
endif()

# Installs what a user reads, scenarios to play, and the schemas of documents. Pages, clauses and scenarios have the
# places that they have in the tree, so that links between them work.
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs suites DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "docs/*/*.json" PATTERN "checks" EXCLUDE)
install(DIRECTORY reports/model/schema/ harness/scenario/schema/
  DESTINATION "${CMAKE_INSTALL_DATADIR}/shardproof/schema")

# Files that the build makes from the options of the launcher (launcher/manual).
install(DIRECTORY "${SHARDPROOF_MANUAL}/man1" DESTINATION "${CMAKE_INSTALL_MANDIR}")
install(FILES "${SHARDPROOF_MANUAL}/bash/shardproof" DESTINATION "${CMAKE_INSTALL_DATADIR}/bash-completion/completions")
install(FILES "${SHARDPROOF_MANUAL}/zsh/_shardproof" DESTINATION "${CMAKE_INSTALL_DATADIR}/zsh/site-functions")

# Example engines, and the package that the Python engines use.
install(DIRECTORY examples DESTINATION "${CMAKE_INSTALL_DATADIR}/shardproof"
  USE_SOURCE_PERMISSIONS PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY fixtures/pytorch/src/shardproof DESTINATION "${CMAKE_INSTALL_DATADIR}/shardproof/python"
  FILES_MATCHING PATTERN "*.py")

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

include(ShardproofPackage)

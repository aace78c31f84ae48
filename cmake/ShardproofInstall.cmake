# Defines which files `cmake --install` installs, and where: the programs, what their users read, and the libraries for
# programs of their own (ShardproofInstallLibrary.cmake). A program that links the libraries needs the libraries that
# they need. If this build has downloaded one of them, it installs all the rest, and prints what it leaves out.
include(GNUInstallDirs)

# The libraries that run inside a rank. CMake fails if this list lacks one, because another library links it.
set(rooms shardproof_options shardproof_fmt shardproof_base shardproof_protocol shardproof_control
  shardproof_rendezvous shardproof_tensor shardproof_trace shardproof_fabric shardproof_world shardproof_cases
  shardproof_device shardproof_scenario shardproof_subject shardproof_subject_header shardproof_subject_abi
  shardproof_player shardproof_faults shardproof_runner shardproof_main shardproof_play shardproof_play_main)
set(programs shardproof-worker shardproof-nccl-tap)
# Shared objects that the launcher loads or passes to ranks, if this build has them. The launcher looks for them in
# ../lib/ and ../lib/shardproof/ of its own folder.
foreach(optional IN ITEMS shardproof_worker shardproof_nccl_tap_library shardproof_cuda shardproof_mpi_openmpi
    shardproof_mpi_mpich)
  if(TARGET ${optional})
    list(APPEND plugins ${optional})
  endif()
endforeach()

# Builds everything that the install copies, and nothing else: this is what ./run builds.
add_custom_target(shardproof_package)
add_dependencies(shardproof_package shardproof ${programs} shardproof_main shardproof_play_main ${plugins}
  shardproof_manual)

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
foreach(module IN ITEMS shardproof_cuda shardproof_mpi_openmpi shardproof_mpi_mpich)
  if(TARGET ${module})
    install(TARGETS ${module} LIBRARY DESTINATION lib/shardproof)
  endif()
endforeach()

# Installs what a user reads, scenarios to play, and the schemas of documents. Pages, clauses and scenarios have the
# places that they have in the tree, so that links between them work.
install(FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY docs suites DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "docs/*/*.json" PATTERN "checks" EXCLUDE)
install(CODE "set(SHARDPROOF_PAGES \"${CMAKE_INSTALL_DOCDIR}\")")
install(SCRIPT cmake/unlink_sources.cmake)
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

if(SHARDPROOF_LINKED_DOWNLOADS)
  list(JOIN SHARDPROOF_LINKED_DOWNLOADS ", " downloads)
  install(CODE "message(NOTICE
    \"shardproof: the programs are installed. The libraries and headers for C++ programs of your own are left out, \"
    \"and so are their files for CMake and pkg-config: they need ${downloads}, which only this build has. To install \"
    \"them: install ${downloads} (docs/building.md has the packages), delete ${PROJECT_BINARY_DIR}, build again, \"
    \"install again.\")")
else()
  include(ShardproofInstallLibrary)
endif()

include(ShardproofPackage)

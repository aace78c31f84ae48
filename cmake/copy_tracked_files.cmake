# CPack calls this script when it collects the files of a package. For a source archive, it copies the files of the last
# commit. For other packages, CPack itself collects what `cmake --install` installs.
if(CPACK_INSTALL_CMAKE_PROJECTS)
  return()
endif()
execute_process(COMMAND git archive HEAD COMMAND tar -x -C "${CMAKE_INSTALL_PREFIX}"
  WORKING_DIRECTORY "${CPACK_SHARDPROOF_SOURCE}" RESULTS_VARIABLE status)
if(NOT status STREQUAL "0;0")
  message(FATAL_ERROR "${CPACK_SHARDPROOF_SOURCE} is not a git checkout, so its committed files are unknown. "
    "Make the archive in a checkout.")
endif()

# CPack calls this script when it collects the files of a package. For a source archive, it copies the files that git
# tracks. For other packages, CPack itself collects what `cmake --install` installs.
if(CPACK_INSTALL_CMAKE_PROJECTS)
  return()
endif()
execute_process(COMMAND git -c core.quotePath=off ls-files
  WORKING_DIRECTORY "${CPACK_SHARDPROOF_SOURCE}" OUTPUT_VARIABLE files RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "${CPACK_SHARDPROOF_SOURCE} is not a git checkout, so the tracked files are unknown. "
    "Make the archive in a checkout.")
endif()
string(REGEX REPLACE "\n$" "" files "${files}")
string(REPLACE "\n" ";" files "${files}")
foreach(file IN LISTS files)
  cmake_path(GET file PARENT_PATH folder)
  file(COPY "${CPACK_SHARDPROOF_SOURCE}/${file}" DESTINATION "${CMAKE_INSTALL_PREFIX}/${folder}")
endforeach()

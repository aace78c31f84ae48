# CPack calls this script before it makes a package. Debian has its own places for two files.
if(NOT CPACK_GENERATOR STREQUAL "DEB")
  return()
endif()
set(usr "${CPACK_TEMPORARY_DIRECTORY}/usr")
file(MAKE_DIRECTORY "${usr}/share/zsh/vendor-completions")
file(RENAME "${usr}/share/zsh/site-functions/_shardproof" "${usr}/share/zsh/vendor-completions/_shardproof")
file(REMOVE_RECURSE "${usr}/share/zsh/site-functions")
file(COPY_FILE "${usr}/share/doc/shardproof/LICENSE" "${usr}/share/doc/shardproof/copyright")

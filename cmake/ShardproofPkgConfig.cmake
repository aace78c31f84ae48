# Writes the files of pkg-config from the targets that CMake links, so both packages link the same libraries in the same
# order.

# The modules of pkg-config that Debian's packages of these targets have.
set(_shardproof_module_Catch2::Catch2 "catch2 >= 3.4")
set(_shardproof_module_nlohmann_json::nlohmann_json "nlohmann_json >= 3.9")
set(_shardproof_module_Eigen3::Eigen "eigen3 >= 3.4")
set(_shardproof_module_fmt::fmt "fmt >= 9")

# Sets `result` to a target and everything that it links: a library comes before the libraries that it needs.
function(_shardproof_link_order result target)
  set(order)
  set(pending "${target}")
  while(pending)
    list(POP_BACK pending next)
    # The last occurrence counts: a static library must come after each library that uses it.
    list(REMOVE_ITEM order "${next}")
    list(APPEND order "${next}")
    if(TARGET ${next})
      get_target_property(linked ${next} INTERFACE_LINK_LIBRARIES)
      if(linked AND NOT DEFINED _shardproof_module_${next})
        list(APPEND pending ${linked})
      endif()
    endif()
  endwhile()
  set(${result} "${order}" PARENT_SCOPE)
endfunction()

# Sets `result` to -I for the folders of headers that a target adds, without those that the compiler always searches.
function(_shardproof_include_flags result target)
  set(flags)
  get_target_property(folders ${target} INTERFACE_INCLUDE_DIRECTORIES)
  foreach(folder IN LISTS folders)
    if(IS_ABSOLUTE "${folder}" AND NOT folder IN_LIST CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES)
      list(APPEND flags "-I${folder}")
    endif()
  endforeach()
  set(${result} "${flags}" PARENT_SCOPE)
endfunction()

# Writes and installs NAME.pc for a library of this tree. shardproof_pkg_config(name target description)
function(shardproof_pkg_config name target description)
  set(cflags -std=c++20 "-I\${includedir}/shardproof" "-I\${includedir}/shardproof/harness")
  set(libs "-L\${libdir}")
  set(options)
  set(modules)
  _shardproof_link_order(order ${target})
  foreach(linked IN LISTS order)
    if(DEFINED _shardproof_module_${linked})
      list(APPEND modules "${_shardproof_module_${linked}}")
      continue()
    elseif(linked STREQUAL "Threads::Threads")
      list(APPEND cflags -pthread)
      list(APPEND options -pthread)
      continue()
    elseif(NOT TARGET ${linked})
      list(APPEND libs "-l${linked}")
      continue()
    endif()
    get_target_property(type ${linked} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      list(APPEND libs "-l${linked}")
    endif()
    get_target_property(link_options ${linked} INTERFACE_LINK_OPTIONS)
    if(link_options)
      list(TRANSFORM link_options REPLACE "^LINKER:" "-Wl,")
      list(APPEND options ${link_options})
    endif()
    get_target_property(definitions ${linked} INTERFACE_COMPILE_DEFINITIONS)
    if(definitions)
      list(TRANSFORM definitions PREPEND "-D")
      list(APPEND cflags ${definitions})
    endif()
    _shardproof_include_flags(folders ${linked})
    list(APPEND cflags ${folders})
  endforeach()
  # shardproof_fmt has the code of fmt, so a program needs only fmt's headers.
  _shardproof_include_flags(folders fmt::fmt)
  list(APPEND cflags ${folders})
  list(REMOVE_DUPLICATES cflags)
  foreach(words IN ITEMS cflags options libs)
    list(JOIN ${words} " " ${words})
  endforeach()
  list(JOIN modules ", " modules)

  # The file finds its own prefix, so that an installed tree can be moved.
  set(folder "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
  file(RELATIVE_PATH up "${CMAKE_INSTALL_PREFIX}/${folder}" "${CMAKE_INSTALL_PREFIX}")
  string(REGEX REPLACE "/$" "" up "${up}")
  foreach(which IN ITEMS LIB INCLUDE BIN)
    set(${which} "${CMAKE_INSTALL_${which}DIR}")
    if(NOT IS_ABSOLUTE "${${which}}")
      string(PREPEND ${which} "\${prefix}/")
    endif()
  endforeach()
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/${name}.pc" @ONLY CONTENT [=[
prefix=${pcfiledir}/@up@
libdir=@LIB@
includedir=@INCLUDE@
launcher=@BIN@/shardproof

Name: @name@
Description: @description@
Version: @PROJECT_VERSION@
Requires: @modules@
Cflags: @cflags@
Libs: @options@ @libs@
]=])
  install(FILES "${PROJECT_BINARY_DIR}/${name}.pc" DESTINATION "${folder}")
endfunction()

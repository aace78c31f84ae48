# Installs the build into an empty folder, builds an outside project with it, and runs that project's cases with the
# installed launcher.
#     cmake -D BUILD=… -D SCRATCH=… -D GENERATOR=… -D COMPILER=… -P install_test.cmake
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

file(REMOVE_RECURSE "${SCRATCH}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${SCRATCH}/prefix")
# The first C++ block of docs/gpu.md is a program.
file(READ "${CMAKE_CURRENT_LIST_DIR}/../../docs/gpu.md" guide)
string(REGEX MATCH "```cpp\n([^`]*)```" code "${guide}")
file(WRITE "${SCRATCH}/on_gpus.cpp" "${CMAKE_MATCH_1}")
run("${CMAKE_COMMAND}" -S "${CMAKE_CURRENT_LIST_DIR}/consumer" -B "${SCRATCH}/build" -G "${GENERATOR}"
  "-DON_GPUS=${SCRATCH}/on_gpus.cpp"
  "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix" "-DCMAKE_CXX_COMPILER=${COMPILER}" -DCMAKE_BUILD_TYPE=Release)
run("${CMAKE_COMMAND}" --build "${SCRATCH}/build")
run("${SCRATCH}/prefix/bin/shardproof" run --worker "${SCRATCH}/build/my_tests" --ranks 4 --out "${SCRATCH}/run")
run("${SCRATCH}/prefix/bin/shardproof" run mine/in_words --worker "${SCRATCH}/build/my_tests" --out "${SCRATCH}/words")
run("${SCRATCH}/prefix/bin/shardproof" run mine/sum --worker "${SCRATCH}/build/on_gpus" --out "${SCRATCH}/on_gpus")
run("${SCRATCH}/prefix/bin/shardproof" run --profile small --require MY-1 --worker "${SCRATCH}/build/my_own_main" --out
  "${SCRATCH}/own")

# Scenarios that the examples once refused, although they claim all the features. The example in C must have the same
# results as the reference engine.
set(examples "${SCRATCH}/prefix/share/shardproof/examples")
foreach(language c cpp)
  run("${CMAKE_COMMAND}" -S "${examples}/${language}" -B "${SCRATCH}/${language}" -G "${GENERATOR}"
    "-DCMAKE_PREFIX_PATH=${SCRATCH}/prefix"
    "-DCMAKE_CXX_COMPILER=${COMPILER}")
  run("${CMAKE_COMMAND}" --build "${SCRATCH}/${language}")
endforeach()
foreach(scenario nothing_computes fixed_row)
  set(play "${SCRATCH}/prefix/bin/shardproof" play "${CMAKE_CURRENT_LIST_DIR}/${scenario}.json" --ranks 2)
  run(${play} --subject "reference,${SCRATCH}/c/libc_engine.so" --out "${SCRATCH}/${scenario}_c")
  run(${play} --worker "${SCRATCH}/cpp/my_engine" --out "${SCRATCH}/${scenario}_cpp")
endforeach()

file(READ "${SCRATCH}/run/report.json" report)
string(JSON cases LENGTH "${report}" cases)
string(JSON id GET "${report}" cases 0 id)
string(JSON verdict GET "${report}" cases 0 verdict)
if(NOT cases EQUAL 1 OR NOT id STREQUAL "mine/all_gather_keeps_rank_order[W=4]" OR NOT verdict STREQUAL "passed")
  message(FATAL_ERROR
    "expected one case, mine/all_gather_keeps_rank_order[W=4], passed; "
    "the report has ${cases}, first ${id}, ${verdict}")
endif()

# A program that links the library must not get the library's own warnings and its static libstdc++.
file(READ "${SCRATCH}/build/build.ninja" rules)
foreach(flag -Werror -static-libstdc++ -ffp-contract)
  string(FIND "${rules}" "${flag}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "programs that link the package get its option ${flag}")
  endif()
endforeach()

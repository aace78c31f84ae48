# Checks that every limit is measured, and that the document marks numbers of CPU tables as meaningless.
# cmake -D PROGRAM=… -D BACKEND=… -P check_gpu_limits.cmake
execute_process(COMMAND "${PROGRAM}" "${BACKEND}" OUTPUT_VARIABLE document COMMAND_ERROR_IS_FATAL ANY)
string(JSON label GET "${document}" meaningless)
string(JSON ranks GET "${document}" all_reduce ranks)
string(JSON samples GET "${document}" all_reduce on_stream samples)
string(JSON bytes GET "${document}" copy_on_device bytes)
foreach(path IN ITEMS "launch;call" "launch;kernel_after_kernel" "launch;launch_until_seen_to_have_ended" "event;record"
  "event;query_of_what_has_happened" "event;record_until_seen")
  foreach(part IN ITEMS median p10 p90)
    string(JSON value GET "${document}" ${path} ${part})
    if(NOT value MATCHES "^[0-9.e+-]+$")
      message(FATAL_ERROR "${path} ${part}: expected a number, got ${value}")
    endif()
  endforeach()
endforeach()
if(NOT ranks EQUAL 8 OR NOT samples EQUAL 4 OR NOT bytes EQUAL 1048576)
  message(FATAL_ERROR "expected an all-reduce of 8 ranks, 4 samples and copies of 1 MiB, got ${document}")
endif()

execute_process(COMMAND "${PROGRAM}" none.so RESULT_VARIABLE code ERROR_VARIABLE messages)
if(NOT code EQUAL 3 OR NOT messages MATCHES "backend none.so: there is no such file")
  message(FATAL_ERROR "without a backend: expected exit code 3 and the reason, got ${code} and ${messages}")
endif()

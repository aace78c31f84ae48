# Checks that a run with an unusable backend ends with exit code 3, and with the whole reason on one line.
#     cmake -D SHARDPROOF=… -D WORKER=… -D MODULE=… -D SCRATCH=… -D "REASON=…" -P check_refusal.cmake
file(REMOVE_RECURSE "${SCRATCH}")
execute_process(COMMAND "${SHARDPROOF}" run overlap --ranks 2 --worker "${WORKER}" --device cuda --backend "${MODULE}"
  --out "${SCRATCH}"
  RESULT_VARIABLE code ERROR_VARIABLE said)
if(NOT code EQUAL 3)
  message(FATAL_ERROR "expected exit code 3, got ${code}:\n${said}")
endif()
string(FIND "${said}" "backend ${MODULE}: ${REASON}\n" at)
if(at EQUAL -1)
  message(FATAL_ERROR "expected a line that ends with\nbackend ${MODULE}: ${REASON}\ngot\n${said}")
endif()

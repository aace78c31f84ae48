# Checks that the module exports one symbol only, because programs that load it may have their own CUDA or C++
# libraries.
#     cmake -D NM=… -D MODULE=… -P check_exports.cmake
execute_process(COMMAND "${NM}" -D --defined-only --format=just-symbols "${MODULE}" OUTPUT_VARIABLE symbols
  COMMAND_ERROR_IS_FATAL ANY)
if(NOT symbols STREQUAL "shardproof_vendor_tables\n")
  message(FATAL_ERROR "${MODULE} must export only shardproof_vendor_tables, but exports:\n${symbols}")
endif()

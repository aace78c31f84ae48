# The module is loaded into programs that may have CUDA or C++ libraries of their own: it gives them one symbol, and no
# other. cmake -D NM=… -D MODULE=… -P check_exports.cmake
execute_process(COMMAND "${NM}" -D --defined-only --format=just-symbols "${MODULE}" OUTPUT_VARIABLE symbols
  COMMAND_ERROR_IS_FATAL ANY)
if(NOT symbols STREQUAL "shardproof_vendor_tables\n")
  message(FATAL_ERROR "${MODULE} exports, beside or instead of shardproof_vendor_tables:\n${symbols}")
endif()

#include "harness/protocol/crash_record.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string>

namespace shardproof::protocol {
namespace {

std::string bytes_of(const CrashHeader& header, std::size_t size = CrashHeader::map_offset + 100) {
  std::string bytes(size, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

TEST_CASE("a crash record has the parts that its header names, as far as the file has them") {
  CrashHeader header{.registers_kept = 17, .stack_begin = 0x1000, .stack_bytes = 16, .map_bytes = 5};
  std::string bytes = bytes_of(header);
  bytes.replace(CrashHeader::stack_offset, 3, "abc");
  bytes.replace(CrashHeader::map_offset, 5, "a map");
  const auto record = parse_crash_record(bytes);
  REQUIRE(record);
  CHECK(record->header.registers_kept == 17);
  CHECK(record->stack == std::string("abc").append(13, '\0'));
  CHECK(record->map == "a map");

  header.stack_bytes = header.map_bytes = ~std::uint64_t{0};
  const auto greedy = parse_crash_record(bytes_of(header));
  REQUIRE(greedy);
  CHECK(greedy->stack.size() == CrashHeader::most_stack);
  CHECK(greedy->map.size() == 100);
  const auto cut = parse_crash_record(bytes_of(header, sizeof header));
  REQUIRE(cut);
  CHECK(cut->stack.empty());
  CHECK(cut->map.empty());
}

TEST_CASE("bytes that are no crash record of this version are refused") {
  CHECK_FALSE(parse_crash_record(""));
  CHECK_FALSE(parse_crash_record(bytes_of({}).substr(0, sizeof(CrashHeader) - 1)));
  CHECK_FALSE(parse_crash_record(bytes_of({.begins_with = 1})));
  CHECK_FALSE(parse_crash_record(bytes_of({.layout = CrashHeader::version + 1})));
  CHECK_FALSE(parse_crash_record(bytes_of({.registers_kept = CrashHeader::most_registers + 1})));
}

TEST_CASE("a word of the stack is read only inside the saved part") {
  CrashRecord record;
  record.header.stack_begin = 0x1000;
  record.stack = std::string(16, '\x01');
  CHECK(stack_word(record, 0x1000) == 0x0101'0101'0101'0101);
  CHECK(stack_word(record, 0x1008) == 0x0101'0101'0101'0101);
  for (const std::uint64_t outside : {std::uint64_t{0}, std::uint64_t{0xfff}, std::uint64_t{0x1009}, ~std::uint64_t{0}})
    CHECK_FALSE(stack_word(record, outside));
  CHECK_FALSE(stack_word(CrashRecord{}, 0));
}

TEST_CASE("the cause of a signal says who sent it, or what could not be accessed") {
  CHECK(signal_cause({.signal = SIGSEGV, .code = SEGV_MAPERR, .address = 16}) ==
        "at address 0x10, which is not mapped");
  CHECK(signal_cause({.signal = SIGBUS, .code = BUS_ADRERR, .address = 1}) == "at address 0x1, which has no memory");
  CHECK(signal_cause({.signal = SIGSEGV, .code = SI_USER, .sender = 12}) == "sent by process 12");
  CHECK(signal_cause({.signal = SIGSEGV, .code = SI_KERNEL}) == "at an address that the processor does not report");
  CHECK(signal_cause({.signal = SIGABRT, .code = SI_TKILL}).empty());
}

}  // namespace
}  // namespace shardproof::protocol

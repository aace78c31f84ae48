// The frames of records that a rank may have damaged.
#include "launcher/run/crash_frames.hpp"

#include <catch2/catch_test_macros.hpp>

#include "launcher/files/small_file.hpp"

using namespace shardproof;
using namespace shardproof::launcher;

namespace {

/// A record of this process, after a call of an address without code. The top of the stack is in register 7 of x86-64.
protocol::CrashRecord record_of_nowhere(std::uint32_t registers) {
  protocol::CrashRecord record;
  record.header.thread = 1;
  record.header.registers_kept = registers;
  record.header.stack_begin = record.header.registers[7] = 0x1000;
  record.stack = std::string(64, '\x01');
  record.map = whole_text("/proc/self/maps");
  return record;
}

}  // namespace

TEST_CASE("a record with few registers has frames or a reason, and nothing outside it is read") {
  for (std::uint32_t registers = 0; registers < 17; ++registers) {
    CAPTURE(registers);
    const reports::CrashFrames found = CrashFrameFinder().find(record_of_nowhere(registers));
    CHECK(found.frames.size() + found.why_no_more.size() > 0);
  }
}

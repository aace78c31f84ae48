#include "reports/export/crash_text.hpp"

#include <fmt/format.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "reports/export/printed_text.hpp"

namespace shardproof::reports {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

protocol::CrashHeader null_write() {
  return {.is_complete = 1,
          .signal = SIGSEGV,
          .code = SEGV_MAPERR,
          .thread = 7,
          .rank = 1,
          .thread_name = {'w', 'o', 'r', 'k'}};
}

CrashFrame frame(std::string function, std::uint64_t address = 16) {
  return {.address = address, .function = std::move(function), .file = "a.cpp", .line = 3};
}

TEST_CASE("the text of a crash separates the body from the harness, without functions that only pass the call on") {
  const CrashFrames found{.frames = {frame("crash()"), frame("body(Rank&)"), frame("void std::__invoke<body>()"),
                                     frame("shardproof::runner::lambda()"),
                                     frame("shardproof::runner::CaseBodyRunner::run(std::function<void ()> const&)"),
                                     frame("main")}};
  const std::string text = crash_text(1, null_write(), found);
  CHECK(text ==
        "rank 1, signal 11 (SIGSEGV) at address 0x0, which is not mapped, thread 7 \"work\"\n"
        "#0   crash() at a.cpp:3\n"
        "#1   body(Rank&) at a.cpp:3\n"
        "-- below: the harness, which called the body of the case --\n"
        "#2   void std::__invoke<body>() at a.cpp:3\n"
        "#3   shardproof::runner::lambda() at a.cpp:3\n"
        "#4   shardproof::runner::CaseBodyRunner::run(std::function<void ()> const&) at a.cpp:3\n"
        "#5   main at a.cpp:3\n");
  CHECK(crash_excerpt(1, text, "worlds/0/evidence/rank-1.crash") ==
        "  the stack of rank 1 (worlds/0/evidence/rank-1.crash):\n"
        "    rank 1, signal 11 (SIGSEGV) at address 0x0, which is not mapped, thread 7 \"work\"\n"
        "    #0   crash() at a.cpp:3\n"
        "    #1   body(Rank&) at a.cpp:3\n");
}

TEST_CASE("a frame says what is known of it, and recursion takes one line") {
  CrashFrames found{
      .frames = {{.address = 0}, {.address = 31, .offset = 15, .function = {}, .file = {}, .module = "libx.so"}},
      .why_no_more = "libdw: no\nmatching address range"};
  found.frames.push_back({.address = 5, .function = "g()", .file = {}, .module = "tests", .is_inlined = true});
  for (int i = 0; i < 4; ++i) found.frames.push_back(frame("again(int)"));
  found.frames.push_back({.address = 6, .function = "h()", .file = {}, .module = "tests", .is_guess = true});
  protocol::CrashHeader header = null_write();
  header.rank = -1;
  CHECK(
      crash_text(0, header, found) ==
      "rank 0, signal 11 (SIGSEGV) at address 0x0, which is not mapped, thread 7 \"work\", which the program started\n"
      "#0   0x0, where the rank has no code\n"
      "#1   0xf in libx.so\n"
      "#2   g() (inlined) in tests\n"
      "#3   again(int) at a.cpp:3, 4 times\n"
      "#7   h() in tests (perhaps)\n"
      "no more frames: libdw: no matching address range\n");
}

TEST_CASE("a terminal shows few and short lines of a stack, keeps their places, and no control characters") {
  CrashFrames found;
  for (std::uint64_t i = 0; i < 40; ++i) found.frames.push_back(frame(std::string(300, 'f') + "\x1b[31m", i));
  const std::string excerpt = crash_excerpt(1, crash_text(1, null_write(), found), "");
  CHECK_THAT(excerpt, ContainsSubstring("#11") && !ContainsSubstring("#12") && !ContainsSubstring("\x1b"));
  CHECK_THAT(excerpt, ContainsSubstring("ff… at a.cpp:3\n") && EndsWith("\n    … and 28 more lines\n"));
  for (std::size_t begin = 0; begin < excerpt.size();) {
    const std::size_t end = excerpt.find('\n', begin);
    CHECK(end - begin <= 120);
    begin = end + 1;
  }
}

TEST_CASE("the text of a crash says that its record is incomplete") {
  protocol::CrashHeader header = null_write();
  header.is_complete = 0;
  CHECK_THAT(crash_text(1, header, {.frames = {}, .why_no_more = "no map"}),
             EndsWith("\nthe record is incomplete: the rank had no time or no space to save all of it\n"
                      "no frames: no map\n"));
}

TEST_CASE("a rank without a stack has the reason in one line") {
  CHECK(no_crash_text("no\nprocess") == "no stack: no process\n");
  CHECK(crash_excerpt(2, no_crash_text("no process"), "x") == "  no stack of rank 2: no process\n");
  CHECK(crash_excerpt(2, "", "x").empty());
}

TEST_CASE("the last eight lines that a rank printed are shown, with escapes for what is not visible") {
  std::string text;
  for (int i = 1; i <= 20; ++i) text += fmt::format("line {}\n", i);
  CHECK(printed_text(1, text, "logs/rank-1.err") ==
        "  rank 1 printed last (logs/rank-1.err):\n    line 13\n    line 14\n    line 15\n    line 16\n"
        "    line 17\n    line 18\n    line 19\n    line 20\n");
  CHECK(printed_text(0, "\x1b[2J\u202e\xff", "") == "  rank 0 printed last:\n    \\x1b[2J\\u{202e}\\xff\n");
}

}  // namespace
}  // namespace shardproof::reports

// Marks of calls: their text, and what a reader makes of it.
#include "harness/protocol/call_mark.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <string_view>

using namespace shardproof::protocol;

TEST_CASE("a mark reads as it was written") {
  for (const std::string_view call : {"forward", "failing forward", "clip_grad_norm"}) {
    for (const int occurrence : {1, 2, 1000}) {
      for (const bool is_end : {false, true}) {
        const CallMark mark{.iteration = 12, .call = std::string(call), .occurrence = occurrence, .is_end = is_end};
        CAPTURE(to_text(mark));
        CHECK(read_call_mark(to_text(mark)) == mark);
      }
    }
  }
  CHECK(to_text({.iteration = 0, .call = "forward"}) == "iter 0 forward");
  CHECK(to_text({.iteration = 1, .call = "forward", .occurrence = 2, .is_end = true}) == "iter 1 forward (2) end");
}

TEST_CASE("a mark of another writer is no mark of a call") {
  for (const std::string_view text : {"", "note", "iter", "iter ", "iter x forward", "iter 0", "iter -1 forward",
                                      "iter 99999999999 forward", "iteration 0 forward"}) {
    CAPTURE(text);
    CHECK_FALSE(read_call_mark(text));
  }
  CHECK(read_call_mark("iter 0 forward (two)") == CallMark{.iteration = 0, .call = "forward (two)"});
}

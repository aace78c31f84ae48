#include "harness/control/page_watch.hpp"

#include <poll.h>

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "harness/control/control_page.hpp"

using namespace shardproof;

namespace {

constexpr int no_longer_than_ms = 60'000;

bool is_readable(const control::PageWatch& watch, int for_ms) {
  pollfd one{.fd = watch.descriptor(), .events = POLLIN, .revents = 0};
  return ::poll(&one, 1, for_ms) == 1;
}

TEST_CASE("a watch of a page becomes readable after each change that a launcher must see") {
  control::ControlPage page = control::ControlPage::anonymous(2);
  page.report(1, {.pid = 7, .left = true});
  control::PageWatch watch(page.watcher());
  REQUIRE(is_readable(watch, no_longer_than_ms));
  // The watch forwards the ring above once more, or has done so already.
  const auto change = [&](const std::string& what, const auto& make) {
    CAPTURE(what);
    while (is_readable(watch, 10)) watch.clear();
    make();
    CHECK(is_readable(watch, no_longer_than_ms));
  };
  change("abort", [&] { page.raise_abort(1, {0, control::AbortReason::failed, "an assertion"}); });
  change("doom", [&] { page.doom({1, control::AbortReason::died, "killed"}); });
  change("a rank left", [&] { page.report(0, {.pid = 6, .left = true}); });
  change("a rank ended", [&] { page.end_rank({.rank = 0}); });

  while (is_readable(watch, 10)) watch.clear();
  page.report(0, {.pid = 6, .cases_ended = 1});
  CHECK_FALSE(is_readable(watch, 50));
}

TEST_CASE("the end of a rank is on the page once its guard has reported it") {
  control::ControlPage page = control::ControlPage::anonymous(3);
  CHECK_FALSE(page.rank_end(1));
  protocol::RankEnd end{.rank = 1,
                        .signalled = true,
                        .code = 9,
                        .asked_by = protocol::RankEnd::AskedBy::foreign_launcher,
                        .asked_signal = 15,
                        .lacked_memory = true,
                        .stream_bytes = 100,
                        .standard_output_bytes = 200,
                        .standard_error_bytes = 300,
                        .last_words = "out of memory"};
  page.end_rank(end);
  CHECK(page.rank_end(1) == end);
  CHECK_FALSE(page.rank_end(0));
  CHECK_FALSE(page.rank_end(2));

  end.rank = 2;
  end.last_words = std::string(600, 'x');
  page.end_rank(end);
  CHECK(page.rank_end(2)->last_words == std::string(512, 'x'));
}

}  // namespace

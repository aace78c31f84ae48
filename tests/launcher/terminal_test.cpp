// The line that lives while worlds run.
#include <stdlib.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "harness/control/control_page.hpp"
#include "launcher/terminal/terminal.hpp"
#include "reports/export/columns.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using namespace std::chrono_literals;

namespace {

RunProgress busy() {
  return {.done = 12,
          .total = 64,
          .failed = 1,
          .running = "overlap/training_overlap[W=2]",
          .running_for = 300ms,
          .slowest = "overlap/post_optim_event[W=2,event=true]",
          .slowest_time = 1200ms};
}

}  // namespace

TEST_CASE("the line says how far the run is, what it does, what failed and what was slow") {
  CHECK(progress_line(busy(), 200) ==
        "12/64 cases, 1 failed | overlap/training_overlap[W=2] 0.3 s | slowest "
        "overlap/post_optim_event[W=2,event=true] 1.2 s");
  CHECK(progress_line({.done = 0, .total = 3}, 200) == "0/3 cases");
}

TEST_CASE("the line of several runs counts what they are about, and estimates the remaining time") {
  RunProgress progress{
      .what = "faults", .done = 12, .total = 64, .left = 39'100ms, .running = "late", .running_for = 300ms};
  CHECK(progress_line(progress, 200) == "12/64 faults, about 40 s left | late 0.3 s");
  progress.left = 100s;
  CHECK(progress_line(progress, 200) == "12/64 faults, about 2 min left | late 0.3 s");
  progress.left = 2h;
  CHECK(progress_line(progress, 200) == "12/64 faults, about 2.0 h left | late 0.3 s");
}

TEST_CASE("the remaining work takes as long as the work before it") {
  CHECK_FALSE(time_left(3s, 0, 4));
  CHECK(time_left(3s, 1, 4) == 9s);
  CHECK(time_left(3s, 4, 4) == 0s);
  CHECK(time_left(3s, 5, 4) == 0s);
}

TEST_CASE("the line fits every width") {
  for (std::size_t width = 0; width < 130; ++width) {
    const std::string line = progress_line(busy(), width);
    INFO(width << ": " << line);
    CHECK(reports::columns_of(line) <= width);
    if (width >= 22) CHECK(line.starts_with("12/64 cases, 1 failed"));
  }
  CHECK(progress_line(busy(), 60) == "12/64 cases, 1 failed | overlap/training_overlap[W=2] 0.3 s");
  CHECK(progress_line(busy(), 100) ==
        "12/64 cases, 1 failed | overlap/training_overlap[W=2] 0.3 s | slowest overlap/pos…,event=true] 1.2 s");
  CHECK(progress_line(busy(), 55) == "12/64 cases, 1 failed | overlap/trai…overlap[W=2] 0.3 s");
}

TEST_CASE("the progress line shows the slowest case once it is slow") {
  RunProgress progress = busy();
  progress.slowest_time = 999ms;
  CHECK(progress_line(progress, 200) == "12/64 cases, 1 failed | overlap/training_overlap[W=2] 0.3 s");
}

TEST_CASE("no character of an id is cut in two") {
  RunProgress progress{.done = 1, .total = 2, .running = "größe/überläufe_und_mehr_als_das[gerät=öfen]"};
  for (std::size_t width = 30; width < 70; ++width) {
    const std::string line = progress_line(progress, width);
    INFO(line.size());
    CHECK_NOTHROW(nlohmann::json(line).dump());  // refuses what is not UTF-8
  }
}

TEST_CASE("progress is followed over worlds") {
  ProgressTracker tracker(5);
  control::ControlPage page = control::ControlPage::anonymous(2);
  const protocol::WorldPlan plan{.size = 2, .cases = {"a/one", "a/two"}};
  page.report(0, {.cases_ended = 1, .cases_failed = 1, .position = 1, .case_started_ns = 1});
  page.report(1, {.cases_ended = 0, .cases_failed = 0, .position = 0, .case_started_ns = 2});
  RunProgress seen = tracker.update(plan, page);
  CHECK(seen.done == 0);
  CHECK(seen.failed == 1);
  CHECK(seen.running == "a/two");
  CHECK(seen.slowest == "a/two");

  tracker.world_ended(plan, 2, 1, 0);
  control::ControlPage next = control::ControlPage::anonymous(2);
  seen = tracker.update(plan, next);
  CHECK(seen.done == 2);
  CHECK(seen.failed == 1);
  CHECK(seen.running.empty());
  CHECK(seen.total == 5);
}

TEST_CASE(
    "what is waived is no failure: in a world that runs it is not known yet, behind it it is a number of its own") {
  ProgressTracker tracker(9, true);
  control::ControlPage page = control::ControlPage::anonymous(1);
  const protocol::WorldPlan plan{.size = 1, .cases = {"a/one", "a/two", "a/three"}},
      next{.size = 1, .cases = {"b/one"}};
  page.report(0, {.cases_ended = 3, .cases_failed = 3, .position = -1, .case_started_ns = 1});
  CHECK(progress_line(tracker.update(plan, page), 200) == "3/9 cases, 3 failed or waived");
  tracker.world_ended(plan, 3, 1, 2);
  CHECK(progress_line(tracker.update(next, control::ControlPage::anonymous(1)), 200) ==
        "3/9 cases, 1 failed, 2 waived");
}

TEST_CASE("the progress line counts all worlds that run side by side, and shows the case that has run longest") {
  ProgressTracker tracker(6);
  control::ControlPage page = control::ControlPage::anonymous(1), other_page = control::ControlPage::anonymous(1);
  const protocol::WorldPlan plan{.size = 1, .cases = {"a/one", "a/two"}},
      other{.size = 1, .cases = {"b/one", "b/two", "b/three"}};
  page.report(0, {.cases_ended = 1, .cases_failed = 1, .position = 1, .case_started_ns = 9});
  other_page.report(0, {.cases_ended = 2, .cases_failed = 0, .position = 2, .case_started_ns = 5});
  tracker.update(plan, page);
  RunProgress seen = tracker.update(other, other_page);
  CHECK(seen.done == 3);
  CHECK(seen.failed == 1);
  CHECK(seen.running == "b/three");
  tracker.world_ended(other, 3, 0, 0);
  seen = tracker.update(plan, page);
  CHECK(seen.done == 4);
  CHECK(seen.running == "a/two");
}

TEST_CASE("the progress line shows no case for a position outside of the plan") {
  ProgressTracker tracker(1);
  control::ControlPage page = control::ControlPage::anonymous(1);
  page.report(0, {.position = 7, .case_started_ns = 1});
  CHECK(tracker.update({.size = 1, .cases = {"a/one"}}, page).running.empty());
}

TEST_CASE("a file is no terminal: no colour unless asked for, no live line, no escape") {
  TemporaryDirectory directory;
  std::FILE* file = std::fopen((directory / "log").c_str(), "w");
  REQUIRE(file);
  CHECK_FALSE(use_color(ColorWhen::automatic, file));
  CHECK(use_color(ColorWhen::always, file));
  CHECK_FALSE(use_color(ColorWhen::never, file));
  {
    Terminal terminal(file, {});
    ProgressTracker tracker(1);
    const protocol::WorldPlan plan{.size = 1, .cases = {"a/one"}};
    const auto view = terminal.view(tracker, plan);
    REQUIRE(view);
    CHECK(view->interval >= 10s);
    view->show(control::ControlPage::anonymous(1));
    terminal.print("whole line");
    terminal.note("a note\n");
  }
  std::fclose(file);
  CHECK(text_of(directory / "log") == "0/1 cases\nwhole line\na note\n");
}

TEST_CASE("quiet is without notes and without a live line") {
  TemporaryDirectory directory;
  std::FILE* file = std::fopen((directory / "log").c_str(), "w");
  REQUIRE(file);
  {
    Terminal terminal(file, {.quiet = true});
    ProgressTracker tracker(1);
    CHECK_FALSE(terminal.view(tracker, {}));
    terminal.note("a note");
    terminal.print("a failure");
  }
  std::fclose(file);
  CHECK(text_of(directory / "log") == "a failure\n");
}

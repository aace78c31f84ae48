// The pure parts: binding parameters, clause tables, arguments, how a case ends.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "harness/cases/bound_case.hpp"
#include "harness/runner/case_end.hpp"
#include "harness/runner/command_line.hpp"
#include "harness/runner/foreign.hpp"
#include "harness/runner/launcher_search.hpp"
#include "tests/runner/world_driver.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;

namespace {

runner::BodyEnd passed(std::uint64_t calls = 1) {
  return {.own = protocol::Outcome::passed, .reason = {}, .world_calls = calls};
}
runner::BodyEnd failed() { return {.own = protocol::Outcome::failed, .reason = {}, .world_calls = 1}; }
runner::BodyEnd skipped(std::string reason) {
  return {.own = protocol::Outcome::skipped, .reason = std::move(reason), .world_calls = 1};
}
runner::BodyEnd error(std::string reason) {
  return {.own = protocol::Outcome::error, .reason = std::move(reason), .world_calls = 1};
}
control::Abort abort_by(int culprit, control::AbortReason reason = control::AbortReason::failed) {
  return {.culprit = culprit, .reason = reason, .text = "because"};
}

runner::CaseEnd conclude_on(int rank, const std::vector<runner::BodyEnd>& all,
                            const std::optional<control::Abort>& aborted = {}) {
  return runner::conclude(rank, all[static_cast<std::size_t>(rank)], all, aborted);
}
/// The same rank, without an assertion.
runner::BodyEnd vacuous(runner::BodyEnd end) {
  end.checked_nothing = true;
  return end;
}

}  // namespace

TEST_CASE("All passed is passed, unless nothing was asserted") {
  CHECK(conclude_on(0, {passed(), passed()}).outcome == protocol::Outcome::passed);
  CHECK(conclude_on(0, {vacuous(passed()), passed()}).outcome == protocol::Outcome::error);
}

TEST_CASE("A failure of another rank that aborted nothing leaves a pass a pass") {
  CHECK(conclude_on(0, {passed(), failed()}).outcome == protocol::Outcome::passed);
  CHECK(conclude_on(1, {passed(), failed()}).outcome == protocol::Outcome::failed);
}

TEST_CASE("An abort releases those who did nothing wrong") {
  const std::vector<runner::BodyEnd> all{passed(1), error("broken"), failed()};
  const auto released = conclude_on(0, all, abort_by(1));
  CHECK(released.outcome == protocol::Outcome::released);
  CHECK(released.culprit == 1);
  CHECK(released.reason == "because");
  const auto broken = conclude_on(1, all, abort_by(1));
  CHECK(broken.outcome == protocol::Outcome::error);
  CHECK(broken.reason == "broken");
  CHECK(broken.culprit == -1);
  // This rank's own failure came first for it, whichever rank was first for the world.
  CHECK(conclude_on(2, all, abort_by(1)).outcome == protocol::Outcome::failed);
}

TEST_CASE("A released rank is not blamed for calls and assertions that it did not get to") {
  CHECK(conclude_on(0, {vacuous(passed(1)), passed(3), failed()}, abort_by(2)).outcome == protocol::Outcome::released);
}

TEST_CASE("A skip is everybody's, by the first rank that asked, unless a rank went wrong") {
  const std::vector<runner::BodyEnd> two_ask{vacuous(passed()), vacuous(skipped("one")), vacuous(skipped("two"))};
  for (int rank = 0; rank < 3; ++rank) {
    const auto end = conclude_on(rank, two_ask, abort_by(2, control::AbortReason::skipped));
    CHECK(end.outcome == protocol::Outcome::skipped);
    CHECK(end.culprit == 1);
    CHECK(end.reason == "one");
  }
  const std::vector<runner::BodyEnd> one_fails{passed(), skipped("one"), failed()};
  CHECK(conclude_on(0, one_fails, abort_by(1, control::AbortReason::skipped)).outcome == protocol::Outcome::released);
  CHECK(conclude_on(0, one_fails, abort_by(1, control::AbortReason::skipped)).culprit == 2);
  CHECK(conclude_on(1, one_fails, abort_by(1, control::AbortReason::skipped)).outcome == protocol::Outcome::released);
  CHECK(conclude_on(2, one_fails, abort_by(1, control::AbortReason::skipped)).outcome == protocol::Outcome::failed);
}

TEST_CASE("Different numbers of calls are every rank's error") {
  const std::vector<runner::BodyEnd> all{passed(2), passed(2), passed(3)};
  for (int rank = 0; rank < 3; ++rank) {
    const auto end = conclude_on(rank, all);
    CHECK(end.outcome == protocol::Outcome::error);
    CHECK_THAT(end.reason, ContainsSubstring("rank 0 made 2, rank 2 made 3"));
    CHECK(conclude_on(rank, all, abort_by(2, control::AbortReason::deadlock)).outcome == protocol::Outcome::error);
    CHECK_THAT(conclude_on(rank, all, abort_by(2, control::AbortReason::deadlock)).reason,
               ContainsSubstring("; because"));
  }
  for (const control::AbortReason joint : {control::AbortReason::deadlock, control::AbortReason::disagreed}) {
    CHECK(conclude_on(0, {passed(), passed()}, abort_by(1, joint)).outcome == protocol::Outcome::error);
    CHECK(conclude_on(0, {passed(), passed()}, abort_by(1, joint)).reason == "because");
  }
}

TEST_CASE("Every rank finds the same failure of a case, by the ends of all ranks") {
  const auto failure = [](const std::vector<runner::BodyEnd>& all, const std::optional<control::Abort>& aborted = {}) {
    return runner::failure_of(all, aborted);
  };
  CHECK_FALSE(failure({passed(), passed()}));
  CHECK_FALSE(failure({passed(), skipped("one")}, abort_by(1, control::AbortReason::skipped)));
  CHECK(failure({error("what"), passed(), failed()}) == protocol::Outcome::failed);
  CHECK(failure({passed(), error("what")}, abort_by(1, control::AbortReason::error)) == protocol::Outcome::error);
  CHECK(failure({passed(), vacuous(passed())}) == protocol::Outcome::error);
  CHECK(failure({passed(2), passed(3)}) == protocol::Outcome::error);
  CHECK(failure({passed(), passed()}, abort_by(1, control::AbortReason::deadlock)) == protocol::Outcome::error);
}

TEST_CASE("A body's end travels as a ballot") {
  for (const runner::BodyEnd& end :
       {passed(0), passed(1U << 20), failed(), skipped("why"), error("what"), vacuous(passed(3))}) {
    const runner::BodyEnd back = runner::from_ballot(runner::to_ballot(end));
    CHECK(back.own == end.own);
    CHECK(back.reason == end.reason);
    CHECK(back.world_calls == end.world_calls);
    CHECK(back.checked_nothing == end.checked_nothing);
    CHECK(back.defect.empty());
  }
  runner::BodyEnd broken = error("what");
  broken.defect = "lost";
  const runner::BodyEnd back = runner::from_ballot(runner::to_ballot(broken));
  CHECK(back.own == protocol::Outcome::error);
  CHECK(back.world_calls == broken.world_calls);
  CHECK(back.defect == "lost");
  CHECK_FALSE(back.has_changed_process);
  broken.has_changed_process = true;
  CHECK(runner::from_ballot(runner::to_ballot(broken)).has_changed_process);
  CHECK_FALSE(runner::from_ballot(runner::to_ballot(broken)).left_call);
}

TEST_CASE("If one rank has left a call early, each rank learns that messages may be left") {
  runner::BodyEnd early = passed(3);
  early.left_call = true;
  const std::vector<runner::BodyEnd> quiet{passed(3), failed()};
  const std::vector<runner::BodyEnd> all{passed(3), runner::from_ballot(runner::to_ballot(early))};
  CHECK_FALSE(runner::may_have_left_messages(quiet));
  CHECK(runner::may_have_left_messages(all));
  CHECK(all[1].world_calls == 3);
}

TEST_CASE("A world ends by its case only if no rank has another defect") {
  runner::BodyEnd changed = failed(), lost = passed();
  changed.defect = "its case has changed it";
  changed.has_changed_process = true;
  lost.defect = "GPU 0 is lost";
  CHECK(runner::is_end_by_case(std::vector{passed(), changed}));
  CHECK_FALSE(runner::is_end_by_case(std::vector{changed, lost}));
  CHECK_FALSE(runner::is_end_by_case(std::vector{passed(), lost}));
}

TEST_CASE("A rank whose process can run no further case does not pass, and ends its world for all") {
  const auto lost = [](runner::BodyEnd end) {
    end.defect = "GPU 0 is lost";
    return end;
  };
  CHECK(runner::reason_to_end_world(std::vector{passed(), failed()}).empty());
  const std::vector<runner::BodyEnd> all{passed(), lost(passed()), lost(failed())};
  CHECK(runner::reason_to_end_world(all) == "rank 1 cannot go on: GPU 0 is lost");
  CHECK(conclude_on(0, all).outcome == protocol::Outcome::passed);
  CHECK(conclude_on(1, all).outcome == protocol::Outcome::error);
  CHECK(conclude_on(1, all).reason == "cannot go on: GPU 0 is lost");
  CHECK(conclude_on(2, all).outcome == protocol::Outcome::failed);
  CHECK(conclude_on(2, all).reason == "cannot go on: GPU 0 is lost");
  // An error that results from a release is the other rank's fault, and yet this rank cannot go on.
  const auto released = conclude_on(1, all, abort_by(2));
  CHECK(released.outcome == protocol::Outcome::released);
  CHECK(released.culprit == 2);
  CHECK(released.reason == "because; cannot go on: GPU 0 is lost");
  const std::vector<runner::BodyEnd> one_skips{lost(passed()), skipped("one")};
  CHECK(conclude_on(0, one_skips, abort_by(1, control::AbortReason::skipped)).outcome == protocol::Outcome::error);
  CHECK(conclude_on(1, one_skips, abort_by(1, control::AbortReason::skipped)).outcome == protocol::Outcome::skipped);
}

TEST_CASE("Arguments") {
  const auto parse = [](std::vector<std::string_view> arguments) { return runner::parse_command_line(arguments); };
  CHECK(parse({}).mode == runner::CommandLine::Mode::none);
  CHECK(parse({"-h"}).mode == runner::CommandLine::Mode::help);
  CHECK(parse({"x", "--help", "--nonsense"}).mode == runner::CommandLine::Mode::help);
  CHECK(parse({"--list-json"}).mode == runner::CommandLine::Mode::list);
  CHECK(parse({"--list-json", "--subject", "/engines/mine.so"}).subject_library == "/engines/mine.so");
  CHECK(parse({"--subject=mine.so", "--list-json"}).subject_library == std::filesystem::current_path() / "mine.so");
  CHECK(parse({"--run-dir", "out", "--subject", "./mine"}).subject.empty());
  const auto warm = parse({"--warm", "--subject=s"});
  CHECK(warm.mode == runner::CommandLine::Mode::warm);
  CHECK(warm.subject == "s");
  const auto foreign = parse({"a/*", "--run-dir=out", "--seed", "18446744073709551615", "--subject", "s", "[tag]"});
  CHECK(foreign.mode == runner::CommandLine::Mode::foreign);
  CHECK(foreign.run_directory == "out");
  CHECK(foreign.seed == 18446744073709551615U);
  CHECK(foreign.subject == "s");
  CHECK(foreign.filters == std::vector<std::string>{"a/*", "[tag]"});
  const auto made = parse({"--make-scenario=7", "--engine", "flat_shard", "--count", "3", "--ranks=1,4", "--features",
                           "timeline,serial", "--without", "adam"});
  CHECK(made.mode == runner::CommandLine::Mode::make_scenario);
  CHECK(made.asked.first_seed == 7);
  CHECK(made.asked.engine == "flat_shard");
  CHECK(made.asked.count == 3);
  CHECK(made.asked.ranks == std::vector{1, 4});
  CHECK(made.asked.features == std::vector<std::string>{"timeline", "serial"});
  CHECK(made.asked.left_out == std::vector<std::string>{"adam"});
  const auto shrunk = parse({"--shrink-scenario", "a.json", "--ranks", "2"});
  CHECK(shrunk.mode == runner::CommandLine::Mode::shrink_scenario);
  CHECK(shrunk.scenario == "a.json");
  CHECK(shrunk.asked.ranks == std::vector{2});
  using Arguments = std::vector<std::string_view>;
  for (const Arguments& wrong : {Arguments{"--make-scenario", "7"}, Arguments{"--make-scenario", "x", "--ranks", "1"},
                                 Arguments{"--make-scenario"}, Arguments{"--make-scenario", "7", "--ranks", "0"},
                                 Arguments{"--make-scenario", "7", "--ranks", "1,x"},
                                 Arguments{"--make-scenario", "7", "--ranks", "1", "--seed", "3"},
                                 Arguments{"--shrink-scenario", "a", "--ranks", "1,2"}}) {
    CHECK_THROWS_AS(parse(wrong), runner::UsageError);
  }
  for (const Arguments& for_launcher :
       {Arguments{"a"}, Arguments{"--seed", "1"}, Arguments{"--subject", "./mine.so", "-x"}, Arguments{"--run-dirx"}})
    CHECK(parse(for_launcher).mode == runner::CommandLine::Mode::none);
  for (const Arguments& wrong :
       {Arguments{"--list-json", "a"}, Arguments{"--list-json", "--subject", "s"},
        Arguments{"--list-json", "--seed", "1"}, Arguments{"--run-dir"}, Arguments{"--run-dir="},
        Arguments{"--run-dir=x", "--seed=-1"}, Arguments{"--run-dir=x", "--seed="}, Arguments{"--run-dir=x", "-x"},
        Arguments{"--warm", "a"}, Arguments{"--warm", "--subject", "s", "a"},
        Arguments{"--warm", "--subject", "s", "--seed", "1"}}) {
    CHECK_THROWS_AS(parse(wrong), runner::UsageError);
  }
}

TEST_CASE("A rank of mpirun that waits in vain for rank 0 says so") {
  const test::TemporaryDirectory folder;
  protocol::Listing listing;
  listing.cases.push_back({.id = "a/case[W=3]", .suite = "a", .world_size = 3});
  runner::CommandLine line;
  line.run_directory = (folder.path() / "run").string();
  const protocol::Identity second{.rank = 1, .world_size = 3, .launcher = "mpirun", .variables = {}, .job = {}};
  CHECK_THROWS_WITH(runner::ForeignWorld(second, line, listing, std::chrono::milliseconds(1)),
                    ContainsSubstring("rank 0 of 3 has not begun in " + line.run_directory.string()) &&
                        ContainsSubstring("within 0.001 s: did the launcher start it"));
}

namespace {

/// The launcher of a program in /mine, where exactly these programs exist. The error text, if none is found.
std::string launcher_of(const runner::LauncherPlaces& places, const std::vector<std::string>& programs) {
  try {
    return runner::find_launcher(places, [&](const std::filesystem::path& path) {
      return std::ranges::find(programs, path.lexically_normal().string()) != programs.end();
    });
  } catch (const runner::NoLauncher& none) {
    return none.what();
  }
}

}  // namespace

TEST_CASE("A program finds its launcher by a variable, by its own path, and then in PATH") {
  const std::vector<std::string> all{"/chosen", "/installed/shardproof", "/mine/bin/shardproof", "/usr/bin/shardproof"};
  runner::LauncherPlaces places{.variable = "/chosen",
                                .compiled_in = "/installed/shardproof",
                                .program_folder = "/mine",
                                .search_path = "/bin::/usr/bin"};
  CHECK(launcher_of(places, all) == "/chosen");
  CHECK_THAT(launcher_of(places, {"/installed/shardproof"}),
             ContainsSubstring("SHARDPROOF_LAUNCHER=/chosen is not a program: set SHARDPROOF_LAUNCHER to the path"));
  places.variable.clear();
  CHECK(launcher_of(places, all) == "/installed/shardproof");
  CHECK(launcher_of(places, {"/usr/bin/shardproof", "shardproof"}) == "/usr/bin/shardproof");
  CHECK_THAT(launcher_of(places, {}), ContainsSubstring("/installed/shardproof is not a program, and no folder") &&
                                          ContainsSubstring("add DIR/bin to PATH"));
  places.compiled_in = "bin/shardproof";
  CHECK(launcher_of(places, all) == "/mine/bin/shardproof");
  places.compiled_in.clear();
  CHECK(launcher_of(places, all) == "/usr/bin/shardproof");
  CHECK_THAT(launcher_of(places, {}), ContainsSubstring("this program was built without its path"));
}

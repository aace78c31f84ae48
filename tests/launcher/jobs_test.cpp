// Worlds side by side: that they really are, that a report does not show it, and that each of them ends as it would
// alone.
#include <signal.h>

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cerrno>
#include <chrono>
#include <set>
#include <sstream>

#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

Said run_jobs(const std::filesystem::path& out, int jobs, std::vector<std::string> arguments,
              const Setting& setting = {}, const std::filesystem::path& worker = trouble_program()) {
  std::vector<std::string> all{"run",        "--worker", worker.string(),     "--out",
                               out.string(), "--jobs",   std::to_string(jobs)};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return call(all, setting);
}

/// The patience of ranks that must meet, also on a busy machine; and of ranks whose other world must not run at the
/// same time.
constexpr std::chrono::seconds to_meet{60}, in_vain{1};

/// The troubled program, whose ranks wait until ranks of so many worlds are there: they never meet unless those run at
/// the same time. Ranks that have waited for `time_limit` give up.
std::filesystem::path gathering_program(const TemporaryDirectory& directory, int worlds,
                                        std::chrono::seconds time_limit) {
  const std::filesystem::path file = directory / "gathering";
  write_text(file, fmt::format(R"SH(#!/bin/sh
if [ -n "$SHARDPROOF_PLAN" ]; then
  world=${{SHARDPROOF_PLAN%/plan.json}}
  : >"{0}/met-${{world##*/}}"
  end=$(($(date +%s) + {2}))
  while [ "$(ls "{0}" | grep -c '^met-')" -lt {1} ]; do
    [ "$(date +%s)" -gt $end ] && echo "alone" >&2 && exit 3
    sleep 0.05
  done
fi
exec "{3}" "$@"
)SH",
                               directory.path().string(), worlds, time_limit.count(), trouble_program().string()));
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return file;
}

std::string stable(const std::filesystem::path& run_directory) {
  const Said said = call({"stable", run_directory.string()});
  CHECK(said.end == code(0));
  return said.out;
}

/// The numbers in logs after `here ` or `child `.
std::vector<pid_t> announced_processes(const std::filesystem::path& run_directory, const std::string& word) {
  std::vector<pid_t> found;
  std::error_code not_there_yet;
  for (auto entry = std::filesystem::recursive_directory_iterator(run_directory / "worlds", not_there_yet);
       entry != std::filesystem::recursive_directory_iterator(); entry.increment(not_there_yet)) {
    if (entry->path().extension() != ".err") continue;
    std::istringstream text(text_of(entry->path()));
    for (std::string line; std::getline(text, line);) {
      if (line.starts_with(word)) found.push_back(std::stoi(line.substr(word.size())));
    }
  }
  return found;
}

}  // namespace

TEST_CASE("worlds run side by side, as many as were asked for") {
  const TemporaryDirectory directory, other;
  const Said together = run_jobs(directory / "run", 3, {"good"}, {}, gathering_program(directory, 3, to_meet));
  INFO(together.out << together.err);
  CHECK(together.end == code(0));
  const Said alone = run_jobs(other / "run", 2, {"good"}, {}, gathering_program(other, 3, in_vain));
  CHECK(alone.end != code(0));
}

TEST_CASE("worlds side by side have different GPUs, and one that finds too few free waits for them") {
  const auto run = [](const TemporaryDirectory& directory, const char* gpus, const std::filesystem::path& worker) {
    return run_jobs(directory / "run", 3,
                    {"good", "--device", "cuda", "--backend", SHARDPROOF_CPU_BACKEND, "--gpus", gpus}, {}, worker);
  };
  const TemporaryDirectory directory, narrow, narrower;
  const Said said = run(directory, "6", gathering_program(directory, 3, to_meet));
  INFO(said.out << said.err);
  REQUIRE(said.end == code(0));
  std::set<std::string> gpus;
  const auto report = report_of(directory / "run");
  for (const auto& world : report.at("worlds")) {
    for (const auto& rank : world.at("environment")) gpus.insert(rank.at("CUDA_VISIBLE_DEVICES"));
  }
  CHECK(gpus.size() == 6);
  // Those of one and two ranks run together; the one of three waits for both.
  const Said waits = run(narrow, "3", gathering_program(narrow, 2, to_meet));
  INFO(waits.out << waits.err);
  CHECK(waits.end == code(0));
  CHECK(run(narrower, "3", gathering_program(narrower, 3, in_vain)).end != code(0));
}

TEST_CASE("a report does not show how many worlds ran side by side, nor does a merge") {
  for (const bool isolated : {false, true}) {
    const TemporaryDirectory directory;
    std::vector<std::string> arguments{"good",           "many",           "skip",      "bad/killed", "bad/check",
                                       "fails/requires", "dies/as_rank_0", "--retries", "2"};
    if (isolated) arguments.emplace_back("--isolate");
    const Said one = run_jobs(directory / "one", 1, arguments);
    const Said four = run_jobs(directory / "four", 4, arguments);
    INFO(one.out << four.out << four.err);
    CHECK(one.end == four.end);
    CHECK(stable(directory / "one") == stable(directory / "four"));
    CHECK(report_of(directory / "four").at("worlds").size() > 5);
    const std::string report = text_of(directory / "four/report.json");
    CHECK(call({"merge", (directory / "four").string()}).end == four.end);
    CHECK(text_of(directory / "four/report.json") == report);
  }
}

TEST_CASE("a hung world costs no result of the worlds that run at the same time") {
  const TemporaryDirectory directory;
  const Said said =
      run_jobs(directory / "run", 3, {"bad/hangs", "hang/soon_told", "many", "--isolate", "--timeout", "1"});
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  const Verdicts seen = verdicts(directory / "run");
  CHECK(seen.at("bad/hangs[W=2]") == "hung");
  CHECK(seen.at("hang/soon_told[W=2]") == "hung");
  CHECK(std::ranges::count(seen, "passed", [](const auto& verdict) { return verdict.second; }) == 10);
  CHECK_FALSE(std::filesystem::is_empty(directory / "run/worlds/10/evidence"));
}

TEST_CASE("an interrupt ends all worlds that run, and those that wait are not begun") {
  const TemporaryDirectory directory;
  Setting setting;
  setting.meanwhile = [&](Process& launcher, const auto&) {
    REQUIRE(eventually([&] { return announced_processes(directory / "run", "here ").size() == 4; }));
    ::kill(launcher.pid(), SIGINT);
  };
  const Said said = run_jobs(directory / "run", 2, {"bad/waits", "good/alone", "--isolate", "--repeat", "5"}, setting);
  INFO(said.out << said.err);
  CHECK(said.end == code(128 + SIGINT));
  CHECK_THAT(said.out, ContainsSubstring("when the run ended, rank 0 waits"));
  // The same text of several worlds is one line.
  const std::size_t first = said.out.find("EVIDENCE ");
  REQUIRE(first != std::string::npos);
  CHECK(said.out.find("EVIDENCE ", first + 1) == std::string::npos);
  const auto report = report_of(directory / "run");
  CHECK(report.at("summary").at("passed") == 5);
  CHECK(report.at("summary").at("not_run") == 5);
  CHECK_FALSE(std::filesystem::exists(directory / "run/worlds/7"));
  for (const pid_t rank : announced_processes(directory / "run", "here "))
    CHECK(eventually([&] { return has_ended(rank); }));
}

TEST_CASE("the launcher kills the processes that a world leaves, and not the ranks of other worlds") {
  const TemporaryDirectory directory;
  const Said said = run_jobs(directory / "run", 2, {"loud/leaves_a_daemon", "hang/takes_its_time", "--isolate"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK_THAT(said.out, ContainsSubstring("left process") && ContainsSubstring("running; the launcher killed it"));
  const auto daemons = announced_processes(directory / "run", "child ");
  REQUIRE_FALSE(daemons.empty());
  for (const pid_t daemon : daemons) CHECK(has_ended(daemon));
}

TEST_CASE("lines of ranks that are shown say of which world they are, where several run") {
  const TemporaryDirectory directory;
  const Said said = run_jobs(directory / "run", 2, {"loud/forks", "--isolate", "--repeat", "2", "--output", "0"});
  CHECK_THAT(said.out, ContainsSubstring("[world 0, rank 0] child ") && ContainsSubstring("[world 1, rank 0] child "));
}

TEST_CASE("the launcher refuses to debug several worlds at once") {
  const Said said = call({"run", "--worker", "/nowhere", "--jobs", "2", "--debug", "0"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("--debug with --jobs"));
}

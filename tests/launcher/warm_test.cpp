// Ranks that are copies of one process which has prepared their subject. Nothing else differs, and a failure of that
// process is reported.
#include <signal.h>

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sstream>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

std::vector<pid_t> numbers_in(const std::filesystem::path& file) {
  std::istringstream text(text_of(file));
  std::vector<pid_t> numbers;
  for (pid_t number = 0; text >> number;) numbers.push_back(number);
  return numbers;
}

Said run_on(const std::string& subject, const std::filesystem::path& out, std::vector<std::string> arguments,
            const Setting& setting = {}, const std::filesystem::path& worker = trouble_program()) {
  arguments.insert(arguments.begin(), {"run", "--worker", worker.string(), "--subject", subject});
  arguments.insert(arguments.end(), {"--out", out.string()});
  return call(arguments, setting);
}

/// In the directory, what is prepared and copied is written down.
Setting noting(const TemporaryDirectory& directory, const std::string& trouble = {}) {
  return {.environment = {"PREPARED=" + (directory / "prepared").string(), "FORKED=" + (directory / "forked").string(),
                          "PREPARE=" + trouble}};
}

/// The stable part of the report, without the name of the subject.
nlohmann::json stable_but_subject(const std::filesystem::path& run_directory) {
  const Said said = call({"stable", run_directory.string()});
  CHECK(said.end == code(0));
  nlohmann::json report = nlohmann::json::parse(said.out);
  report.at("subject").erase("name");
  return report;
}

/// A worker that lists its cases, and as a warm process is this script.
std::filesystem::path scripted(const TemporaryDirectory& directory, const std::string& script) {
  const std::filesystem::path file = directory / "scripted";
  write_text(file, fmt::format("#!/bin/sh\nif [ \"$1\" = --warm ]; then\n{}\nelse exec '{}' \"$@\"\nfi\n", script,
                               trouble_program().string()));
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  return file;
}

}  // namespace

TEST_CASE("a report does not show that ranks were copies, however worlds are made of them") {
  const std::vector<std::string> cases{"good",           "many",         "skip",
                                       "fails/requires", "fails/throws", "bad/killed",
                                       "dies/as_rank_0", "loud/forks",   "fails/is_not_quiet_at_its_end[W=2]",
                                       "bad/exits"};
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--isolate", "--jobs", "3"}, {"--retries", "1"}, {"--fabric", "thread"}}) {
    const TemporaryDirectory directory;
    std::vector<std::string> arguments = cases;
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Setting setting = noting(directory);
    arguments.emplace_back("--no-warm");
    const Said started = run_on("hoarder", directory / "started", arguments, setting);
    arguments.pop_back();
    CHECK(numbers_in(directory / "prepared").empty());
    const Said copied = run_on("warm", directory / "copied", arguments, setting);
    INFO(started.out << started.err << copied.out << copied.err);
    CHECK(copied.end == started.end);
    CHECK(stable_but_subject(directory / "copied") == stable_but_subject(directory / "started"));
    CHECK(numbers_in(directory / "prepared").size() == 1);
    CHECK(numbers_in(directory / "forked").size() > 6);
    CHECK(text_of(directory / "copied/warm.log") == "warm\n");
    CHECK_FALSE(std::filesystem::exists(directory / "started/warm.log"));
    for (const pid_t process : numbers_in(directory / "prepared")) CHECK(has_ended(process));
  }
}

TEST_CASE("a forked rank has its own environment and output, and the launcher kills its leftover processes") {
  const TemporaryDirectory directory;
  const Said said =
      run_on("warm", directory / "run", {"loud/leaves_a_daemon", "loud/forks", "--output", "0"}, noting(directory));
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK_THAT(said.out,
             ContainsSubstring("[rank 0] child ") && ContainsSubstring("left process") && !ContainsSubstring("] warm"));
}

TEST_CASE(
    "what a subject warns of when it is prepared is shown, without what it would do to a terminal, and is in the "
    "report") {
  const TemporaryDirectory directory;
  const Said said = run_on("warm", directory / "run", {"good/alone"}, noting(directory, "warns"));
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(said.err ==
        "shardproof: warning: preparing subject warm: the paper is thin\\x1b[2J\n"
        "shardproof: warning: preparing subject warm: and the ink is pale\n");
  const nlohmann::json warnings{"the paper is thin\x1b[2J", "and the ink is pale"};
  CHECK(report_of(directory / "run").at("subject").at("warnings") == warnings);
  CHECK(call({"merge", directory / "run"}).end == code(0));
  CHECK(report_of(directory / "run").at("subject").at("warnings") == warnings);
  CHECK_FALSE(stable_but_subject(directory / "run").at("subject").contains("warnings"));
  const Said refused = run_on("warm", directory / "refused", {"good/alone"}, noting(directory, "fails"));
  CHECK_THAT(refused.err, ContainsSubstring("warning: preparing subject warm: the paper is thin\n"));
}

TEST_CASE("processes that prepare a subject end with the warm process, and are reported") {
  const TemporaryDirectory directory;
  Setting setting = noting(directory, "leaves daemons");
  setting.environment.push_back("DAEMONS=" + (directory / "daemons").string());
  const Said said = run_on("warm", directory / "run", {"good"}, setting);
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  const std::vector<pid_t> daemons = numbers_in(directory / "daemons");
  REQUIRE(daemons.size() == 2);
  for (const pid_t daemon : daemons) {
    CHECK(has_ended(daemon));
    CHECK_THAT(
        said.err,
        ContainsSubstring(fmt::format(
            "warning: the process that prepared subject warm left process {} (sleep) running; the launcher killed it\n",
            daemon)));
  }
}

TEST_CASE("after the death of the warm process no world runs, and finished results are kept") {
  const TemporaryDirectory directory;
  const Said said =
      run_on("warm", directory / "run", {"dies/without_its_original", "good/stays", "good/alone", "--isolate"});
  INFO(said.out << said.err);
  CHECK(said.end == code(3));
  CHECK_THAT(said.err, ContainsSubstring("rank 0 of 2 could not be started: process ") &&
                           ContainsSubstring(", which ranks are copied from, ended with signal 9 (SIGKILL)"));
  const Verdicts seen = verdicts(directory / "run");
  CHECK(seen.at("good/alone[W=1]") == "passed");
  CHECK(seen.at("dies/without_its_original[W=2]") == "passed");
  CHECK(seen.at("good/stays[W=2]") == "not_run");
}

TEST_CASE("a subject that cannot be prepared ends the run with what it says, before anything runs") {
  const std::pair<const char*, const char*> troubles[] = {
      {"fails", "cannot prepare subject warm of {}: there is no ink\ninstall some\n(its output: "},
      {"throws", "cannot prepare subject warm of {}: out of paper\n(its output: "},
      {"dies", "which ranks are copied from, ended with exit code 7:\nthe printer is on fire\n(its output: "}};
  for (const auto& [trouble, text] : troubles) {
    const TemporaryDirectory directory;
    const Said said = run_on("warm", directory / "run", {"good"}, noting(directory, trouble));
    CHECK(said.end == code(3));
    CHECK_THAT(said.err, ContainsSubstring(fmt::format(fmt::runtime(text), trouble_program().string())));
    CHECK_FALSE(std::filesystem::exists(directory / "run/report.json"));
    CHECK_FALSE(std::filesystem::exists(directory / "run/worlds/0"));
  }
}

TEST_CASE("a process that cannot be copied ends the run, saying what may help") {
  const TemporaryDirectory directory;
  const Said said = run_on("warm", directory / "run", {"good"}, noting(directory, "copies nothing"));
  CHECK(said.end == code(3));
  CHECK_THAT(said.err, ContainsSubstring("rank 0 of 1 could not be started: cannot copy the warm process (there "
                                         "may be no more processes: see `ulimit -u`"));
  CHECK(verdicts(directory / "run").at("good/alone[W=1]") == "not_run");
}

TEST_CASE("an interrupt while a subject is prepared ends the command and that process") {
  const TemporaryDirectory directory;
  Setting setting = noting(directory, "hangs");
  setting.meanwhile = [&](Process& launcher, const auto&) {
    REQUIRE(eventually([&] { return numbers_in(directory / "prepared").size() == 1; }));
    ::kill(launcher.pid(), SIGINT);
  };
  const Said said = run_on("warm", directory / "run", {"good"}, setting);
  CHECK(said.end == code(128 + SIGINT));
  CHECK_THAT(said.err, ContainsSubstring("interrupted"));
  CHECK(has_ended(numbers_in(directory / "prepared").at(0)));
}

TEST_CASE("a launcher that is killed takes with it the process that ranks are copies of, and the copies") {
  const TemporaryDirectory directory;
  Setting setting = noting(directory);
  std::vector<pid_t> processes;
  setting.meanwhile = [&](Process& launcher, const auto&) {
    const auto here = [&](int rank) {
      std::istringstream log(text_of(directory / fmt::format("run/worlds/0/logs/rank-{}.err", rank)));
      std::string word;
      pid_t process = 0;
      return log >> word >> process && word == "here" ? process : 0;
    };
    REQUIRE(eventually([&] { return here(0) != 0 && here(1) != 0; }));
    processes = {here(0), here(1), numbers_in(directory / "prepared").at(0)};
    ::kill(launcher.pid(), SIGKILL);
  };
  const Said said = run_on("warm", directory / "run", {"bad/waits"}, setting);
  CHECK(said.end == Exit{.signalled = true, .code = SIGKILL});
  REQUIRE(processes.size() == 3);
  for (const pid_t process : processes) CHECK(eventually([&] { return has_ended(process); }));
}

TEST_CASE("malformed answers of the warm process end the run, and the launcher does not wait for valid ones") {
  const std::string ready = "printf '{\"processes\":[]}' >&3; head -c 1 <&3 >\"$PREPARED\"; ";
  const std::pair<std::string, const char*> answers[] = {
      {"printf nonsense >&3; exec sleep 1000", "which ranks are copied from, is unusable: it gave a malformed answer"},
      {"exec 3>&-; exec sleep 1000", "is unusable: it has closed its socket"},
      {ready + "printf '{\"processes\":[1]}' >&3; exec sleep 1000",
       "it names process 1 as a copy: process 1 is not a child of this process"},
      {ready + "printf '{\"processes\":[]}' >&3; exec sleep 1000", "it made 0 copies instead of 1"},
      {ready + "printf '{\"processes\":[\"x\"]}' >&3; exec sleep 1000",
       "it gave a malformed answer: answer: \"processes\": expected an integer"}};
  for (const auto& [script, text] : answers) {
    const TemporaryDirectory directory;
    const Said said = run_on("warm", directory / "run", {"good"}, noting(directory), scripted(directory, script));
    INFO(script);
    CHECK(said.end == code(3));
    CHECK_THAT(said.err, ContainsSubstring(text));
  }
}

TEST_CASE("the launcher copies a worker that a wrapper script starts") {
  const TemporaryDirectory directory;
  const auto worker = scripted(directory, "'" + trouble_program().string() + "' \"$@\"; exit $?");
  const Said said = run_on("warm", directory / "run", {"good", "bad/killed"}, noting(directory), worker);
  INFO(said.out << said.err);
  CHECK(said.end == code(4));
  CHECK(verdicts(directory / "run").at("bad/killed[W=2]") == "crashed");
  CHECK(verdicts(directory / "run").at("good/meets[W=3]") == "passed");
}

TEST_CASE("all runs of `faults` have copies of one process") {
  const TemporaryDirectory directory;
  const Said said = call({"faults", "subject/works", "--worker", SHARDPROOF_SUBJECTS_PROGRAM, "--subject", "warm",
                          "--out", directory / "out"},
                         noting(directory));
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(text_of(directory / "prepared") == "warm\n");
  CHECK(std::filesystem::exists(directory / "out/warm.log"));
}

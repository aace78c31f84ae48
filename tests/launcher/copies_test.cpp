// Ranks are copies of one process of their program, unless that could change what they do. A report does not show it.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <filesystem>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/launcher/command.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

Said run_copied(const std::filesystem::path& out, std::vector<std::string> arguments, const Setting& setting = {},
                const std::filesystem::path& worker = SHARDPROOF_COPIED_PROGRAM) {
  arguments.insert(arguments.begin(), {"run", "--worker", worker.string()});
  arguments.insert(arguments.end(), {"--out", out.string()});
  return call(arguments, setting);
}

std::string log_of(const std::filesystem::path& out, int world, int rank) {
  return text_of(out / fmt::format("worlds/{}/logs/rank-{}.out", world, rank));
}

std::vector<pid_t> children(pid_t process) {
  std::vector<pid_t> found;
  std::istringstream list(text_of(fmt::format("/proc/{0}/task/{0}/children", process)));
  for (pid_t child = 0; list >> child;) found.push_back(child);
  return found;
}

/// The processes that a launcher copies ranks from.
std::vector<pid_t> originals(pid_t launcher) {
  std::vector<pid_t> found = children(launcher);
  std::erase_if(found, [](pid_t child) {
    return text_of(fmt::format("/proc/{}/cmdline", child)).find("--warm") == std::string::npos;
  });
  return found;
}

/// Whether some rank of the run's last world has begun its stream.
bool has_begun_a_stream(const std::filesystem::path& run) {
  int last = 0;
  while (std::filesystem::exists(run / fmt::format("worlds/{}", last + 1))) ++last;
  std::error_code absent;
  const std::filesystem::directory_iterator streams(run / fmt::format("worlds/{}/ranks", last), absent);
  return streams != std::filesystem::directory_iterator();
}

constexpr char has_changed[] = "ranks are started one by one from now on: process ";

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("ranks are copies, and --no-warm starts each by itself, with the same report") {
  const TemporaryDirectory directory;
  const std::vector<std::string> cases{"copies/show_their_origin", "copies/fail", "copies/count_from_zero"};
  const Said copied = run_copied(directory / "copied", cases);
  std::vector<std::string> arguments = cases;
  arguments.emplace_back("--no-warm");
  const Said started = run_copied(directory / "started", arguments);
  INFO(copied.out << copied.err << started.out << started.err);
  CHECK(copied.end == code(1));
  CHECK(started.end == code(1));
  CHECK(count_of(copied.err, "warning") == 0);
  CHECK_THAT(log_of(directory / "started", 1, 1), ContainsSubstring("started\n"));
  CHECK_THAT(log_of(directory / "copied", 1, 1), ContainsSubstring("copied\n"));
  CHECK_FALSE(std::filesystem::exists(directory / "started/warm.log"));
  CHECK(call({"stable", (directory / "copied").string()}).out ==
        call({"stable", (directory / "started").string()}).out);
  CHECK(call({"diff", (directory / "started").string(), (directory / "copied").string()}).end == code(0));
}

TEST_CASE("64 ranks are copies, each with its own output and environment") {
  const TemporaryDirectory directory;
  const Said said = run_copied(directory / "run", {"copies/show_their_origin", "--ranks", "64"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  for (int rank = 0; rank < 64; ++rank) CHECK_THAT(log_of(directory / "run", 0, rank), ContainsSubstring("copied\n"));
}

TEST_CASE("what a case leaves in static variables does not reach another world") {
  const TemporaryDirectory directory;
  const Said said = run_copied(directory / "run", {"copies/count_from_zero", "--isolate", "--repeat", "5"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(run_copied(directory / "same", {"copies/count_from_zero", "copies/count_from_one"}).end == code(0));
}

TEST_CASE("ranks are started by themselves where copies could differ, and no line says so") {
  const TemporaryDirectory directory;
  const auto origin = [&](const std::string& name, const std::vector<std::string>& more, const Setting& setting,
                          const std::filesystem::path& worker = SHARDPROOF_COPIED_PROGRAM) {
    std::vector<std::string> arguments{"copies/show_their_origin", "--ranks", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Said said = run_copied(directory / name, arguments, setting, worker);
    INFO(name << said.out << said.err);
    CHECK(said.end == code(0));
    CHECK(count_of(said.out + said.err, "warning") == 0);
    return log_of(directory / name, 0, 1);
  };
  CHECK_THAT(origin("plain", {}, {}), ContainsSubstring("copied\n"));
  CHECK_THAT(origin("thread", {}, {.environment = {"HAS_THREAD=1"}}), ContainsSubstring("started\n"));
  CHECK_THAT(origin("file", {}, {.environment = {"HAS_FILE=1"}}), ContainsSubstring("started\n"));
  CHECK_THAT(origin("wrapper", {"--rank-wrapper", "env A=1"}, {}), ContainsSubstring("started\n"));
  write_text(directory / "worker.sh", fmt::format("#!/bin/sh\nexec '{}' \"$@\"\n", SHARDPROOF_COPIED_PROGRAM));
  std::filesystem::permissions(directory / "worker.sh", std::filesystem::perms::owner_all);
  CHECK_THAT(origin("script", {}, {}, directory / "worker.sh"), ContainsSubstring("started\n"));
}

TEST_CASE("after the death of the process that ranks are copies of, ranks are started by themselves") {
  const TemporaryDirectory directory;
  const Said said = run_copied(directory / "run", {"copies/kill_their_original", "copies/show_their_origin", "--ranks",
                                                   "2", "--isolate", "--order", "listed", "--repeat", "2"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(count_of(said.out + said.err, has_changed) == 1);
  CHECK_THAT(said.out + said.err, ContainsSubstring("ended with signal 9 (SIGKILL)"));
}

TEST_CASE("if the process that ranks are copies of is stopped, ranks are started by themselves after ten seconds") {
  const TemporaryDirectory directory;
  const Said said = run_copied(directory / "run", {"copies/stop_their_original", "--isolate", "--repeat", "2"});
  INFO(said.out << said.err);
  CHECK(said.end == code(0));
  CHECK(count_of(said.out + said.err, has_changed) == 1);
  CHECK_THAT(said.out + said.err, ContainsSubstring("it did not answer in time"));
}

TEST_CASE("copies that have begun their streams end before other processes are started in their place") {
  const TemporaryDirectory directory;
  Setting setting;
  std::vector<pid_t> copies;
  setting.meanwhile = [&](Process& launcher, const auto&) {
    while (copies.empty() && !has_ended(launcher.pid())) {
      for (const pid_t original : originals(launcher.pid())) {
        for (const pid_t of_world : children(original)) {
          ::kill(of_world, SIGSTOP);
          if (has_begun_a_stream(directory / "run")) copies = children(of_world);
          if (copies.empty()) ::kill(of_world, SIGCONT);
        }
      }
    }
    for (const pid_t copy : copies) ::kill(copy, SIGSTOP);
  };
  const Said said = run_copied(directory / "run",
                               {"copies/show_their_origin", "--ranks", "64", "--isolate", "--repeat", "20"}, setting);
  INFO(said.out << said.err);
  REQUIRE_FALSE(copies.empty());
  for (const pid_t copy : copies) CHECK(has_ended(copy));
  CHECK(said.end == code(0));
  CHECK(report_of(directory / "run").at("summary").at("passed") == 20);
  CHECK(count_of(said.out + said.err, has_changed) == 1);
}

TEST_CASE("a death of that process at any moment costs no case") {
  for (int delay_ms = 0; delay_ms < 60; delay_ms += 6) {
    const TemporaryDirectory directory;
    Setting setting;
    setting.meanwhile = [delay_ms](Process& launcher, const auto&) {
      std::vector<pid_t> found;
      REQUIRE(eventually([&] {
        found = originals(launcher.pid());
        return !found.empty() || has_ended(launcher.pid());
      }));
      std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
      for (const pid_t process : found) ::kill(process, SIGKILL);
    };
    const Said said = run_copied(directory / "run", {"copies/count_from_zero", "--isolate", "--repeat", "20"}, setting);
    INFO(delay_ms << said.out << said.err);
    CHECK(said.end == code(0));
    CHECK(verdicts(directory / "run").size() >= 1);
    CHECK(report_of(directory / "run").at("summary").at("passed") == 20);
    CHECK(count_of(said.out + said.err, has_changed) <= 1);
  }
}

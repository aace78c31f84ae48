// Output that does not arrive where it should: noticed, said, and nothing left behind.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/file_descriptor.hpp"
#include "tests/launcher/command.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;

TEST_CASE("every command reports standard output that it cannot write as unusable output") {
  if (!std::filesystem::exists("/dev/full")) SKIP("no /dev/full here");
  TemporaryDirectory directory;
  const std::string worker = trouble_program().string(), run = (directory / "run").string();
  REQUIRE(call({"run", "good/alone", "--worker", worker, "--out", run}).end == code(0));
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"list", "--worker", worker},
                                             {"list", "--worker", worker, "--json"},
                                             {"diff", run, run},
                                             {"diff", run, run, "--json"},
                                             {"stable", run},
                                             {"export", run, "--junit", "-"},
                                             {"merge", run},
                                             {"run", "good/alone", "--worker", worker},
                                             {"run", "good/alone", "--worker", worker, "--message-format", "json"},
                                             {"--help"},
                                             {"run", "--help"},
                                             {"--version"}}) {
    INFO(arguments.front());
    const Said full = call(arguments, {.prelude = "exec >/dev/full;"});
    CHECK(full.end == code(2));
    CHECK_THAT(full.err, EndsWith("shardproof: output unusable: write to standard output: No space left on device\n"));
    const Said closed = call(arguments, {.prelude = "exec >&-;"});
    CHECK(closed.end == code(2));
    CHECK_THAT(closed.err, EndsWith("shardproof: output unusable: write to standard output: Bad file descriptor\n"));
  }
}

TEST_CASE("a closed reader of the output is no error") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const base::FileDescriptor out(ends[1]);
  ::close(ends[0]);
  const base::FileDescriptor err(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  TemporaryDirectory directory;
  const std::string worker = trouble_program().string(), run = (directory / "run").string();
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"list", "--worker", worker},
                                             {"run", "good", "--worker", worker, "--out", run},
                                             {"diff", run, run},
                                             {"stable", run},
                                             {"explain", run},
                                             {"merge", run},
                                             {"run", "--help"}}) {
    INFO(arguments.front());
    if (arguments.front() == "merge") std::filesystem::remove(run + "/report.json");
    Process process = Process::spawn({.program = SHARDPROOF_LAUNCHER,
                                      .arguments = arguments,
                                      .environment = {"PATH=/usr/bin:/bin"},
                                      .standard_output = out.get(),
                                      .standard_error = err.get()});
    CHECK(process.wait(std::chrono::steady_clock::now() + std::chrono::minutes(1)) == code(0));
  }
  CHECK(std::filesystem::exists(run + "/report.json"));
}

TEST_CASE("a stalled reader of the output delays neither the run nor its interruption") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const base::FileDescriptor in(ends[0]), out(ends[1]), err(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  TemporaryDirectory directory;
  Process process =
      Process::spawn({.program = SHARDPROOF_LAUNCHER,
                      .arguments = {"run", "loud/floods", "hang/soon_told", "--worker", trouble_program().string(),
                                    "--output", "0,1", "--out", (directory / "run").string()},
                      .environment = {"PATH=/usr/bin:/bin"},
                      .standard_output = out.get(),
                      .standard_error = err.get()});
  CHECK(eventually([&] { return std::filesystem::exists(directory / "run/report.json"); }));
  CHECK(verdicts(directory / "run") == Verdicts{{"loud/floods[W=2]", "passed"}, {"hang/soon_told[W=2]", "hung"}});
  process.signal_group(SIGTERM);  // it waits for a reader
  CHECK(process.wait(std::chrono::steady_clock::now() + std::chrono::minutes(1)) ==
        Exit{.signalled = true, .code = SIGTERM});
}

TEST_CASE("files that may not grow end with 2, and not by the signal for it") {
  TemporaryDirectory directory;
  Said said = call({"run", "many", "--repeat", "1000", "--worker", trouble_program().string(), "--out",
                    (directory / "run").string()},
                   {.prelude = "ulimit -f 60;"});
  INFO(said.out << said.err);
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("output unusable") && ContainsSubstring("plan.json") &&
                           ContainsSubstring("File too large"));

  said = call({"list", "--worker", trouble_program().string()},
              {.prelude = "ulimit -f 64; exec >list; head -c 32700 /dev/zero;"});
  CHECK(said.end == code(2));
  CHECK_THAT(said.err, ContainsSubstring("write to standard output: File too large"));
}

TEST_CASE("whatever signal asks a run to end, its ranks and their meeting place go with it") {
  for (const int number : {SIGQUIT, SIGXCPU, SIGUSR1, SIGPWR}) {
    TemporaryDirectory directory;
    std::string meeting_place;
    Setting setting;
    setting.meanwhile = [&](Process& launcher, const auto&) {
      const auto world = directory / "run/worlds/0";
      REQUIRE(eventually([&] { return text_of(world / "logs/rank-1.err").starts_with("here "); }));
      meeting_place = nlohmann::json::parse(text_of(world / "plan.json")).at("rendezvous");
      CHECK(std::filesystem::exists(meeting_place));
      ::kill(launcher.pid(), number);
    };
    const Said said = call(
        {"run", "bad/waits", "--worker", trouble_program().string(), "--out", (directory / "run").string()}, setting);
    INFO(said.out << said.err);
    CHECK(said.end == code(128 + number));
    CHECK(std::filesystem::exists(directory / "run/report.json"));
    CHECK_FALSE(std::filesystem::exists(meeting_place));
  }
}

TEST_CASE("a worker that still lists its cases ends with its launcher") {
  TemporaryDirectory directory;
  const auto named = directory / "pid";
  const auto worker = directory / "worker";
  write_text(worker, "#!/bin/sh\necho $$ >'" + named.string() + ".new'; mv '" + named.string() + ".new' '" +
                         named.string() + "'; exec sleep 600\n");
  std::filesystem::permissions(worker, std::filesystem::perms::owner_all);
  Setting setting;
  setting.meanwhile = [&](Process& launcher, const auto&) {
    REQUIRE(eventually([&] { return std::filesystem::exists(named); }));
    ::kill(launcher.pid(), SIGTERM);
  };
  for (const char* command : {"run", "list"}) {
    std::filesystem::remove(named);
    const Said said = call({command, "--worker", worker.string()}, setting);
    CHECK(said.end == code(128 + SIGTERM));
    CHECK(said.err == "shardproof: interrupted\n");
    CHECK(::kill(std::stoi(text_of(named)), 0) != 0);
  }
}

TEST_CASE("a worker does not list its cases once its launcher has ended") {
  const base::FileDescriptor null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  Process ended = Process::spawn({.program = "/bin/true",
                                  .arguments = {},
                                  .environment = {},
                                  .standard_output = null.get(),
                                  .standard_error = null.get()});
  const pid_t no_process = ended.pid();
  REQUIRE(ended.wait(std::chrono::steady_clock::now() + std::chrono::minutes(1)) == code(0));
  for (const auto& [parent, end] : {std::pair(::getpid(), 0), std::pair(no_process, 3)}) {
    Process process = Process::spawn({.program = trouble_program(),
                                      .arguments = {"--list-json"},
                                      .environment = {"SHARDPROOF_PARENT=" + std::to_string(parent)},
                                      .standard_output = null.get(),
                                      .standard_error = null.get()});
    CHECK(process.wait(std::chrono::steady_clock::now() + std::chrono::minutes(1)) == code(end));
  }
}

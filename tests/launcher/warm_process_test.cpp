// A process for copies as ranks that never reports that it is ready.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "launcher/explore/side_by_side.hpp"
#include "launcher/launcher.hpp"
#include "launcher/worker_client/warm_process.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("the launcher waits for the preparation of a subject for a limited time") {
  const TemporaryDirectory directory;
  write_text(directory / "sleeps", "#!/bin/sh\necho \"$$ $*\"\nexec sleep 1000\n");
  std::filesystem::permissions(directory / "sleeps", std::filesystem::perms::owner_all);
  SignalWatch signals;
  std::string message = "nothing";
  try {
    WarmProcess(find_worker(directory / "sleeps"), "slow", directory / "log", signals, std::chrono::milliseconds(500));
  } catch (const CommandError& error) {
    CHECK(error.code() == infrastructure);
    message = error.what();
  }
  CHECK_THAT(message,
             ContainsSubstring("subject slow of ") && ContainsSubstring("it did not answer in time\n(its output: "));
  const std::string log = text_of(directory / "log");
  CHECK_THAT(log, ContainsSubstring(" --warm --subject slow\n"));
  CHECK_FALSE(std::filesystem::exists("/proc/" + log.substr(0, log.find(' '))));
}

TEST_CASE(
    "of two subjects that are prepared each one's worker knows both processes, which nobody has left to the launcher") {
  const TemporaryDirectory directory;
  write_text(directory / "ready", "#!/bin/sh\nprintf '{\"processes\":[]}' >&3\nexec sleep 1000\n");
  std::filesystem::permissions(directory / "ready", std::filesystem::perms::owner_all);
  SignalWatch signals;
  Contender contender{.requested = "mine",
                      .worker = find_worker(directory / "ready"),
                      .plan = {.subject = "mine"},
                      .subject = {.name = "mine"}};
  contender.worker.listing.subjects = {{.name = "mine", .warm = true}};
  std::array<Contender, 2> contenders{contender, contender};
  prepare(contenders, directory.path(), signals);
  const std::vector<pid_t> both{contenders[0].worker.warm->pid(), contenders[1].worker.warm->pid()};
  CHECK(both[0] != both[1]);
  for (const Contender& prepared : contenders) CHECK(prepared.worker.started == both);
}

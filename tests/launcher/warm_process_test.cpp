// A process that ranks are to be copies of, and that never says that it is ready.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "launcher/launcher.hpp"
#include "launcher/warm_process.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("nobody waits for ever for a subject to be prepared") {
  const TemporaryDirectory directory;
  write_text(directory / "sleeps", "#!/bin/sh\necho \"$$ $*\"\nexec sleep 1000\n");
  std::filesystem::permissions(directory / "sleeps", std::filesystem::perms::owner_all);
  SignalWatch signals;
  std::string told = "nothing";
  try {
    WarmProcess(find_worker(directory / "sleeps"), "slow", directory / "log", signals, std::chrono::milliseconds(500));
  } catch (const CommandError& error) {
    CHECK(error.code() == infrastructure);
    told = error.what();
  }
  CHECK_THAT(told, ContainsSubstring("subject slow of ") && ContainsSubstring("it did not answer in time\n(its output: "));
  const std::string log = text_of(directory / "log");
  CHECK_THAT(log, ContainsSubstring(" --warm --subject slow\n"));
  CHECK_FALSE(std::filesystem::exists("/proc/" + log.substr(0, log.find(' '))));
}

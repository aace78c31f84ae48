// One world, watched closely: who is blamed, who is let go, what is left behind.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "launcher/launcher.hpp"
#include "launcher/process/oom_kills.hpp"
#include "launcher/run/world.hpp"
#include "tests/launcher/command.hpp"
#include "tests/launcher/one_world.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using namespace std::chrono_literals;

namespace {

struct Watched {
  WorldOutcome outcome;
  protocol::WorldPlan plan;
  int looks = 0;
};

Watched watch(const TemporaryDirectory& directory, std::vector<std::string> cases, const WorldLaunch& launch) {
  Watched watched;
  watched.plan.size = 2;
  watched.plan.subject.clear();
  watched.plan.cases = std::move(cases);
  watched.plan.case_timeout = 1000s;
  const LiveView view{.interval = 10ms, .show = [&](const control::ControlPlane& page) {
                        watched.looks += page.world_size() == 2 ? 1 : 0;
                      }};
  watched.outcome = run_world(watched.plan, {directory / "world"}, launch, {view});
  return watched;
}

WorldLaunch launch_with(const std::string& trouble) {
  return {.worker = trouble_program(), .environment = {"PATH=/usr/bin:/bin", "TROUBLE=" + trouble}};
}

}  // namespace

TEST_CASE("a world that ends in order says so of every rank, and leaves no meeting place") {
  TemporaryDirectory directory;
  const Watched watched = watch(directory, {"good/stays[W=2]"}, launch_with(""));
  CHECK(watched.outcome.complete);
  CHECK(watched.outcome.infrastructure_error.empty());
  CHECK(watched.outcome.evidence.endings ==
        std::vector<protocol::Ending>{{.rank = 0, .how = protocol::Ending::How::exited},
                                      {.rank = 1, .how = protocol::Ending::How::exited}});
  CHECK(nlohmann::ordered_json::parse(text_of(directory / "world/plan.json")).get<protocol::WorldPlan>().nonce ==
        watched.plan.nonce);
  CHECK(watched.plan.nonce.size() == 32);
  CHECK_FALSE(std::filesystem::exists(watched.plan.rendezvous));
}

TEST_CASE("two worlds never share a nonce") {
  TemporaryDirectory first, second;
  CHECK(watch(first, {"good/stays[W=2]"}, launch_with("")).plan.nonce !=
        watch(second, {"good/stays[W=2]"}, launch_with("")).plan.nonce);
}

TEST_CASE("of two ranks that have not begun, the one that never came is to blame") {
  TemporaryDirectory directory;
  WorldLaunch launch = launch_with("never joins");
  launch.joining = 500ms;
  const Watched watched = watch(directory, {"good/stays[W=2]"}, launch);
  CHECK_FALSE(watched.outcome.complete);
  CHECK_THAT(watched.outcome.infrastructure_error, ContainsSubstring("rank 1 did not join its world within 0.5 s"));
  CHECK(watched.outcome.evidence.endings[0].how == protocol::Ending::How::stopped);
  CHECK(watched.outcome.evidence.endings[1].how == protocol::Ending::How::overran);
  CHECK(watched.looks > 0);
}

TEST_CASE("a worker that is gone when ranks are to start is an infrastructure error, not a crash") {
  TemporaryDirectory directory;
  const Watched watched = watch(directory, {"good/stays[W=2]"}, {.worker = directory / "gone", .environment = {}});
  CHECK_FALSE(watched.outcome.complete);
  CHECK_THAT(watched.outcome.infrastructure_error,
             ContainsSubstring("rank 0 of 2 could not be started") && ContainsSubstring("No such file"));
  CHECK(watched.outcome.evidence.endings[0].how == protocol::Ending::How::not_started);
  CHECK(watched.outcome.evidence.endings[1].how == protocol::Ending::How::not_started);
}

TEST_CASE("a process that the kernel killed for memory explains one SIGKILL in all worlds of a launcher") {
  std::uint64_t counter = 0;
  OomKills kills([&] { return counter; });
  counter = 1;
  WorldLaunch launch = launch_with("");
  launch.oom_kills = &kills;
  for (const bool is_first : {true, false}) {
    TemporaryDirectory directory;
    const auto endings = watch(directory, {"bad/killed[W=2]"}, launch).outcome.evidence.endings;
    CHECK(endings[1].code == SIGKILL);
    CHECK(endings[1].lacked_memory == is_first);
    CHECK_FALSE(endings[0].lacked_memory);
  }
}

TEST_CASE("a world that cannot be set up is an error") {
  TemporaryDirectory directory;
  write_text(directory / "world", "a file");
  CHECK_THROWS_AS(watch(directory, {"good/stays[W=2]"}, launch_with("")), CommandError);
}

// Ranks that do not end, in every place. The report has the rank, the place and what was seen of it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>
#include <thread>
#include <vector>

#include "launcher/run/evidence.hpp"
#include "launcher/run/world.hpp"
#include "tests/launcher/command.hpp"
#include "tests/launcher/one_world.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace std::chrono_literals;

namespace {

struct Hung {
  Said said;
  std::string explanation;
  nlohmann::json endings;
};

/// A run of one case that hangs, and then of one that passes.
Hung hang(const std::filesystem::path& out, const std::string& id, const std::string& timeout = "0.5") {
  Hung hung;
  hung.said = call({"run", id, "many/rounds[W=2,n=0]", "--timeout", timeout, "--worker", trouble_program().string(),
                    "--out", out.string()});
  INFO(hung.said.out << hung.said.err);
  CHECK(hung.said.end == code(4));
  CHECK(verdicts(out) == std::map<std::string, std::string>{{id, "hung"}, {"many/rounds[W=2,n=0]", "passed"}});
  const auto report = report_of(out);
  for (const auto& result : report.at("cases")) {
    if (result.at("id") != id) continue;
    const auto& world = report.at("worlds").at(result.at("world").get<std::size_t>());
    hung.explanation = world.at("explanation");
    hung.endings = world.at("endings");
  }
  return hung;
}

std::filesystem::path evidence(const std::filesystem::path& run) {
  for (const char* world : {"0", "1"}) {
    if (std::filesystem::exists(run / "worlds" / world / "evidence/flight.json"))
      return run / "worlds" / world / "evidence";
  }
  return {};
}

}  // namespace

TEST_CASE("the launcher reports a hang with its rank, wherever it hangs and however it answers SIGTERM") {
  TemporaryDirectory directory;
  for (const char* name : {"spins", "ignores_sigterm", "exits_when_asked"}) {
    const auto run = directory / name;
    const std::string id = "hang/" + std::string(name) + "[W=2]";
    const Hung hung = hang(run, id);
    CHECK_THAT(hung.explanation, StartsWith("rank 1 never entered barrier #0 in group world (rank 0 has waited for ") &&
                                     ContainsSubstring("it is in " + id + " before its first collective"));
    CHECK(hung.endings.at(0).at("how") == "stopped");
    CHECK(hung.endings.at(1).at("how") == "overran");
    CHECK_THAT(text_of(evidence(run) / "rank-1.status"), ContainsSubstring("State:") && ContainsSubstring("wchan"));
    // Not where rank 0 is by then: on a busy machine it may not have reached the barrier.
    CHECK_THAT(hung.said.out, ContainsSubstring("SLOW " + id + ": half of its 0.5 s are over"));
  }
}

TEST_CASE("a long run names a failure when its world ends, and shows it in full once, at the end") {
  TemporaryDirectory directory;
  const std::string out = run_trouble(directory / "run", {"hang/spins", "good/meets[W=3]", "--timeout", "5.1"}).out;
  const std::size_t named = out.find("\nHANG hang/spins[W=2]"), shown = out.find("\nHANG hang/spins[W=2]", named + 1);
  INFO(out);
  REQUIRE(shown != std::string::npos);
  CHECK(out.substr(shown).find("world 1: 3 ranks of shm") != std::string::npos);
  const std::size_t again = out.find("again: ");
  CHECK(again > shown);
  CHECK(out.find("again: ", again + 1) == std::string::npos);
}

TEST_CASE("the launcher reports a stopped rank with the collective it never entered, and does not let it continue") {
  TemporaryDirectory directory;
  const Hung hung = hang(directory / "run", "hang/stopped[W=2]");
  CHECK_THAT(hung.explanation,
             StartsWith(R"(rank 1 never entered all_reduce #1 of 3 f32 (sum) "after the stop" in group world)") &&
                 ContainsSubstring("it is in hang/stopped[W=2] after barrier #0 in group world"));
  CHECK_THAT(text_of(evidence(directory / "run") / "rank-1.status"), ContainsSubstring("T (stopped)"));
  CHECK(hung.endings.at(1).at("how") == "overran");
}

TEST_CASE("ranks that wait at the end of the case reveal a rank that hangs after its last collective") {
  TemporaryDirectory directory;
  const Hung hung = hang(directory / "run", "hang/in_a_destructor[W=3]");
  CHECK_THAT(hung.explanation, StartsWith("rank 2 never reached the end of the case (ranks 0, 1 have waited for ") &&
                                   ContainsSubstring("after barrier #0 in group world"));
}

TEST_CASE("a rank that makes call after call is slow, not stuck") {
  TemporaryDirectory directory;
  const Said said = call({"run", "hang/slow_not_stuck", "--timeout", "2", "--worker", trouble_program().string(),
                          "--out", (directory / "run").string()});
  CHECK(said.end == code(4));
  CHECK(verdicts(directory / "run").at("hang/slow_not_stuck[W=2]") == "hung");
}

TEST_CASE("a peer that comes late to each call is slow, not missing") {
  TemporaryDirectory directory;
  const Said said = call({"run", "hang/slow_peer", "--timeout", "0.8", "--worker", trouble_program().string(), "--out",
                          (directory / "run").string()});
  INFO(said.out);
  CHECK(said.end == code(4));
  CHECK(verdicts(directory / "run").at("hang/slow_peer[W=2]") == "hung");
}

TEST_CASE("a case has its own time, which the command line overrides") {
  TemporaryDirectory directory;
  const auto run = [&](const char* out, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "run");
    arguments.insert(arguments.end(), {"--worker", trouble_program().string(), "--out", (directory / out).string()});
    return call(arguments);
  };
  Said said = run("own", {"hang/soon_told"});
  CHECK(said.end == code(4));
  CHECK_THAT(said.out, ContainsSubstring("has been in hang/soon_told[W=2] for more than its 0.3 s"));
  CHECK(run("enough", {"hang/takes_its_time"}).end == code(0));
  const std::string jobs = std::to_string(2 * std::max(1U, std::thread::hardware_concurrency()));
  said = run("longer", {"hang/soon_told", "--jobs", jobs});
  CHECK_THAT(unwrapped(said.out), ContainsSubstring("for more than its 1.2 s: 0.3 s × 4 ranks that share a core"));
  said = run("less", {"hang/may_take_long", "--timeout", "0.3"});
  CHECK(said.end == code(4));
  CHECK(verdicts(directory / "less").at("hang/may_take_long[W=2]") == "hung");
}

TEST_CASE("a rank that does not exit after its last case costs no result, and the launcher reports it") {
  TemporaryDirectory directory;
  protocol::WorldPlan plan{.size = 2, .subject = "", .cases = {"good/stays[W=2]"}};
  const WorldLaunch launch{.worker = trouble_program(),
                           .environment = {"PATH=/usr/bin:/bin", "TROUBLE=never leaves"},
                           .joining = 700ms,
                           .notice = {}};
  const WorldOutcome outcome = run_world(plan, {directory / "world"}, launch);
  CHECK_FALSE(outcome.complete);
  CHECK(outcome.evidence.endings.at(1).how == protocol::Ending::How::overran);
  CHECK_THAT(outcome.evidence.endings.at(1).text,
             ContainsSubstring("has been after its last case for more than 0.7 s"));
  reports::Merger merger({});
  add_world(merger, plan, CaseIndex(), outcome.evidence, {directory / "world"});
  CHECK(merger.close_world().front().verdict == reports::Verdict::passed);
  const reports::Report report = merger.finish();
  CHECK(reports::exit_code(report) == 4);
  CHECK_THAT(report.worlds.at(0).explanation,
             ContainsSubstring("rank 1 has left its world, and its process does not end"));
}

TEST_CASE("a rank that has left its process group is ended all the same") {
  TemporaryDirectory directory;
  const Hung hung = hang(directory / "run", "hang/in_another_group[W=2]");
  CHECK_THAT(hung.said.out, !ContainsSubstring("is left behind"));
}

TEST_CASE("the stacks of every rank are kept where a stack tool is installed, and else the reason why not") {
  std::string stacks = "took too long";
  for (int attempt = 0; attempt < 3 && stacks.find("took too long") != std::string::npos;
       ++attempt) {  // on a busy machine
    TemporaryDirectory directory;
    const Hung hung = hang(directory / "run", "hang/spins[W=2]");
    const auto file = evidence(directory / "run") / "rank-1.stacks";
    stacks = text_of(file);
    INFO(hung.said.out);
    CHECK_THAT(
        hung.said.out,
        ContainsSubstring(stacks.starts_with("no stacks") ? "\n  " + stacks : "\n  stacks: " + file.string() + "\n"));
  }
  if (find_stack_tool(std::getenv("PATH"))) {
    CHECK_THAT(stacks, ContainsSubstring("ranked_test_case_") && ContainsSubstring("main"));
  } else {
    CHECK_THAT(stacks, ContainsSubstring("neither eu-stack (package elfutils) nor gdb is installed"));
  }
  CHECK_FALSE(find_stack_tool("/nowhere:/neither"));
  CHECK_FALSE(find_stack_tool(nullptr));
}

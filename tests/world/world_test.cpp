// Worlds of ranks that are threads of this process: each joins over files, as a process would.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/world/connection.hpp"
#include "harness/world/event_stream.hpp"
#include "harness/world/seeded_scheduler.hpp"
#include "harness/world/world.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using namespace std::chrono_literals;

namespace {

/// A plan with its directories and its control page, gone with the object.
class Ground {
 public:
  explicit Ground(int size) {
    std::string name = (std::filesystem::temp_directory_path() / "shardproof-world-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root_ = name;
    plan.size = size;
    plan.nonce = root_.filename();
    plan.rendezvous = root_ / "rendezvous";
    plan.directory = root_ / "worlds" / "0";
    plan.seed = 7;
    std::filesystem::create_directories(plan.rendezvous);
    control::ControlPage::create(plan.rendezvous / "control", size, plan.nonce);
  }
  ~Ground() { std::filesystem::remove_all(root_); }

  /// Calls `body` for every rank in a thread of its own; what it throws is the rank's text.
  std::vector<std::string> run(const std::function<void(int)>& body) const {
    std::vector<std::string> errors(static_cast<std::size_t>(plan.size));
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < plan.size; ++rank) {
      ranks.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (const std::exception& error) {
          errors[static_cast<std::size_t>(rank)] = error.what();
        }
      });
    }
    ranks.clear();
    return errors;
  }

  protocol::WorldPlan plan;

 private:
  std::filesystem::path root_;
};

/// For the threads of ranks: Catch2's own assertions belong to one thread.
void expect(bool held, const std::string& what) {
  if (!held) throw std::logic_error("expected: " + what);
}

world::Membership member() { return {.suite_version = "1", .build = "b", .cases = "c"}; }

protocol::CaseInfo info(const std::string& id) {
  protocol::CaseInfo info;
  info.id = id;
  info.params = {{"W", "2"}, {"x", "0.5"}};
  info.world_size = 2;
  return info;
}

}  // namespace

TEST_CASE("Ranks join, talk, and leave in order") {
  const Ground ground(3);
  const protocol::CaseInfo first = info("s/first[W=3]"), second = info("s/second[W=3]");
  std::vector<double> sums(3);
  std::vector<std::uint64_t> seeds(6);
  const auto errors = ground.run([&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    world::World world(ground.plan, rank, member(), world::connect_process);
    world.begin(first, 0);
    sums[at] = world.self().world().all_reduce(iota(static_cast<float>(rank), 1)).to_doubles().at(0);
    expect(world.self().index() == rank, "its own index");
    expect(world.notes().calls.world_calls == 1, "one call noted");
    seeds[at] = world.self().seed();
    expect(world.notes().seed_used, "a seed noted as used");
    world.body_ended();
    world.agree({});
    world.begin(second, 1);
    expect(!world.notes().seed_used && world.notes().calls.world_calls == 0, "notes that begin anew");
    seeds[3 + at] = world.self().seed();
    world.body_ended();
    world.agree({});
    world.case_failed();
    world.leave();
  });
  CHECK(errors == std::vector<std::string>(3));
  CHECK(sums == std::vector<double>(3, 3.0));
  CHECK(seeds[0] == seeds[1]);
  CHECK(seeds[0] == seeds[2]);
  CHECK(seeds[0] != seeds[3]);
  const control::ControlPage control =
      control::ControlPage::open(ground.plan.rendezvous / "control", ground.plan.nonce);
  for (int rank = 0; rank < 3; ++rank) {
    const control::Progress progress = control.progress(rank);
    CHECK(progress.left);
    CHECK(progress.pid == ::getpid());
    CHECK(progress.cases_ended == 2);
    CHECK(progress.cases_failed == 1);
    CHECK(progress.position == -1);
  }
}

TEST_CASE("Ranks of different kinds do not become a world; every rank says who differs in what") {
  const Ground ground(3);
  const auto errors = ground.run([&](int rank) {
    world::Membership mine = member();
    if (rank == 2) mine.build = "other";
    world::World world(ground.plan, rank, std::move(mine), world::connect_process);
  });
  for (const std::string& error : errors) {
    CHECK_THAT(error, ContainsSubstring("build: rank 0 has \"b\", rank 2 has \"other\""));
    CHECK_THAT(error, !ContainsSubstring("cases"));
  }
}

TEST_CASE("A plan for another number of ranks than the control page is refused") {
  const Ground ground(1);
  protocol::WorldPlan plan = ground.plan;
  plan.size = 2;
  CHECK_THROWS_AS(world::World(plan, 0, member(), world::connect_process), world::WorldMismatch);
}

TEST_CASE("A rank that is a process does not take the fabric of threads, nor the other way round") {
  const Ground ground(1);
  protocol::WorldPlan plan = ground.plan;
  plan.fabric = protocol::thread_fabric;
  CHECK_THROWS_WITH(
      world::World(plan, 0, member(), world::connect_process),
      ContainsSubstring("no fabric 'thread' for ranks that are processes on the device 'sim'; use shm, tcp or mpi"));
  const Ground other(1);
  std::filesystem::create_directories(other.plan.directory);
  CHECK_THROWS_AS(world::World(other.plan, 0, member(), world::connect_threads, 1s), world::WorldMismatch);
}

TEST_CASE("Ranks that are threads share their page and take turns, and leave a record of them") {
  const Ground ground(3);
  protocol::WorldPlan plan = ground.plan;
  plan.fabric = protocol::thread_fabric;
  std::filesystem::create_directories(plan.directory);
  const protocol::CaseInfo only = info("s/only[W=3]");
  {
    const world::Connection shared = world::connect_threads(plan);
    const auto errors = ground.run([&](int rank) {
      shared.scheduler->enter(rank);
      {
        world::World world(plan, rank, member(), [&](const protocol::WorldPlan&) { return shared; }, 60s);
        world.begin(only, 0);
        expect(shared.control->turn() == rank, "its own turn");
        world.self().world().barrier();
        world.body_ended();
        world.agree({});
        world.leave();
      }
      shared.scheduler->leave();
    });
    CHECK(errors == std::vector<std::string>(3));
    CHECK(shared.control->progress(2).left);
    CHECK_FALSE(shared.control->turn());
    CHECK_THROWS_WITH(world::connect_threads(plan), ContainsSubstring("record of turns"));
  }
  std::ifstream record(protocol::WorldDirectory{plan.directory}.turns());
  std::string joining, line;
  REQUIRE(std::getline(record, joining));
  REQUIRE(std::getline(record, line));
  CHECK(joining.starts_with("joining: "));
  CHECK(line.starts_with("s/only[W=3]: "));
  CHECK(line.find_first_not_of(" 012", line.find(':') + 1) == std::string::npos);
}

TEST_CASE("A rank that does not come is named when the time is up") {
  const Ground ground(2);
  CHECK_THROWS_AS(world::World(ground.plan, 0, member(), world::connect_process, std::chrono::milliseconds(20)),
                  control::DeadlineExceeded);
}

TEST_CASE("An abort of the running case releases the others, and only from this case") {
  const Ground ground(2);
  const protocol::CaseInfo first = info("s/first[W=2]");
  std::vector<int> culprits(2, -2);
  const auto errors = ground.run([&](int rank) {
    world::World world(ground.plan, rank, member(), world::connect_process);
    for (const std::uint64_t position : {0U, 1U}) {
      world.begin(first, position);
      if (position == 0 && rank == 1) {
        world.abort(control::AbortReason::failed, "enough");
      } else if (position == 0) {
        try {
          world.self().world().barrier();
        } catch (const control::Released& released) {
          culprits[0] = released.abort().culprit;
          expect(world.notes().calls.released, "a release noted");
        }
      } else {
        world.self().world().barrier();
        expect(!world.aborted(), "a new case without an abort");
      }
      world.body_ended();
      world.agree({});
    }
    world.leave();
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK(culprits[0] == 1);
}

TEST_CASE("No rank waits in a doomed world") {
  const Ground ground(2);
  const auto errors = ground.run([&](int rank) {
    world::World world(ground.plan, rank, member(), world::connect_process);
    world.agree({});
    if (rank == 1) world.doom(control::AbortReason::error, "cannot go on");
    world.agree({});
  });
  for (const std::string& error : errors) CHECK_THAT(error, ContainsSubstring("cannot go on"));
}

TEST_CASE("Parameters are read in the type asked for, and say what is wrong with them") {
  const Ground ground(1);
  world::World world(ground.plan, 0, member(), world::connect_process);
  protocol::CaseInfo mine = info("s/c[W=1,flag=true,n=-3,x=0.5]");
  mine.params = {{"W", "1"}, {"flag", "true"}, {"n", "-3"}, {"x", "0.5"}};
  world.begin(mine, 0);
  const Rank& rank = world.self();
  CHECK(rank.param("x") == "0.5");
  CHECK(rank.param<double>("x") == 0.5);
  CHECK(rank.param<int>("n") == -3);
  CHECK(rank.param<bool>("flag"));
  CHECK_THROWS_AS(rank.param<int>("x"), std::invalid_argument);
  CHECK_THROWS_AS(rank.param<bool>("n"), std::invalid_argument);
  CHECK_THROWS_AS(rank.param("y"), std::out_of_range);
}

TEST_CASE("A case that needs a subject cannot run where there is none") {
  const Ground ground(1);
  const world::World world(ground.plan, 0, member(), world::connect_process);
  protocol::CaseInfo mine = info("s/c[W=1]");
  CHECK(world.missing(mine).empty());
  mine.needs = {"timeline", "serial"};
  CHECK_THAT(world.missing(mine), ContainsSubstring("timeline, serial"));
  mine.engine = "fully_shard";
  CHECK(world.missing(mine) == "the program has no subject that could claim the engine kind fully_shard");
}

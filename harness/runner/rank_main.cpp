#include "harness/runner/rank_main.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/file_descriptor.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"
#include "harness/cases/bound_case.hpp"
#include "harness/cases/case_table.hpp"
#include "harness/cases/ranked_test_case.hpp"
#include "harness/protocol/ending.hpp"
#include "harness/protocol/environment.hpp"
#include "harness/runner/answers.hpp"
#include "harness/runner/catch_run.hpp"
#include "harness/runner/command_line.hpp"
#include "harness/runner/complaint.hpp"
#include "harness/runner/coverage.hpp"
#include "harness/runner/crash_handler.hpp"
#include "harness/runner/debugger.hpp"
#include "harness/runner/foreign.hpp"
#include "harness/runner/launcher_search.hpp"
#include "harness/runner/listing.hpp"
#include "harness/runner/lockstep.hpp"
#include "harness/runner/rank_threads.hpp"
#include "harness/runner/thread_runs.hpp"
#include "harness/runner/warm.hpp"
#include "harness/world/connection.hpp"
#include "harness/world/host.hpp"
#include "harness/world/lifeline.hpp"
#include "harness/world/world.hpp"

namespace shardproof {

using cases::BoundCase;
using protocol::rank_left;
using protocol::WorldPlan;
using runner::CommandLine;
using runner::complain;
using runner::UsageError;

namespace {

/// The world ended for a rank that had begun a case. The rank was not refused: it had joined the world.
class CouldNotGoOn : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The parts that all worlds of a program share.
struct CommonProgram {
  cases::CaseTable cases;
  world::Host host = world::this_host();
};

/// The parts that all ranks of a world of our launcher share. A warm process prepares them for its copies.
struct CommonWorld {
  WorldPlan plan;
  std::vector<BoundCase> played;  ///< if the plan makes cases
  std::vector<const BoundCase*> planned;  ///< In the order of the plan.
  std::string digest;  ///< The digest of the ids of all cases.
  // For copies. Without these, each rank makes its own.
  std::unique_ptr<runner::CatchRun> catch_run;
  std::optional<world::Connection> connection;
};

world::Membership membership(const Program& program, std::string cases, const world::Host& host,
                             ProgramExtension::ServiceMaker make_service) {
  return {.suite_version = program.suite_version,
          .build = runner::build_id(),
          .cases = std::move(cases),
          .host = host,
          .make_service = std::move(make_service)};
}

// Catch2 draws the same random numbers on all ranks.
std::uint32_t catch_seed(const WorldPlan& plan) { return static_cast<std::uint32_t>(plan.seed); }

/// The plan's cases, in its order.
std::vector<const BoundCase*> planned_cases(const WorldPlan& plan, const cases::CaseTable& cases) {
  std::vector<const BoundCase*> planned;
  for (const std::string& id : plan.cases) {
    const BoundCase* const found = cases.find(id);
    if (found == nullptr)
      throw UsageError(fmt::format("the plan names case {}, which this program does not declare", id));
    if (found->info.world_size != plan.size)
      throw UsageError(fmt::format("case {} does not belong in a world of {} ranks", id, plan.size));
    planned.push_back(found);
  }
  return planned;
}

runner::LockstepEnd run_to_the_end(world::World& world, std::span<const BoundCase* const> cases,
                                   runner::BodyRunner& runner) {
  try {
    const runner::LockstepEnd end = runner::run_in_lockstep(world, cases, runner);
    world.leave(end.cut_short, end.is_by_case);
    return end;
  } catch (const control::Released&) {
    throw;
  } catch (const std::exception& error) {
    // Without this, the other ranks would wait for this rank at the next case.
    world.doom(control::AbortReason::error, error.what());
    if (world.has_begun()) throw CouldNotGoOn(error.what());
    throw;
  }
}

void take_part(const WorldPlan& plan, int rank, world::Membership membership, std::span<const BoundCase* const> cases,
               const world::World::Connector& connect, runner::CatchRun* prepared) {
  if (rank >= plan.size) throw UsageError(fmt::format("rank {} is not in a world of {} ranks", rank, plan.size));
  world::World world(plan, rank, std::move(membership), connect);
  runner::wait_for_debugger_if_asked();
  std::optional<runner::CatchRun> own;
  const runner::LockstepEnd end =
      run_to_the_end(world, cases, prepared != nullptr ? *prepared : own.emplace(catch_seed(plan)));
  if (!end.is_defective) return;
  complain(fmt::format("rank {} leaves its world: {}", rank, end.cut_short));
  // Exit without exit handlers. Threads of the vendors' libraries may still run work that did not end when it was
  // aborted, and their exit handlers would wait for it. The other ranks' exit handlers would wait for this rank.
  std::fflush(nullptr);
  runner::save_coverage();
  std::_Exit(rank_left);
}

void take_every_part(const CommonWorld& common, const Program& program, const world::Host& host,
                     const ProgramExtension::ServiceMaker& make_service) {
  const WorldPlan& plan = common.plan;
  if (plan.size > protocol::max_threads)
    throw UsageError(
        fmt::format("{} ranks in one process are too many: it may have {}", plan.size, protocol::max_threads));
  // Make all services in this thread: a program's factories do not have to be thread-safe.
  std::vector<std::unique_ptr<world::CaseService>> services;
  for (int rank = 0; rank < plan.size; ++rank) services.push_back(make_service());
  const world::Connection shared = world::connect_threads(plan);
  runner::wait_for_debugger_if_asked();
  runner::ThreadRuns runs(catch_seed(plan));
  runner::run_rank_threads(plan, shared, [&](int rank) {
    const auto runner = runs.for_rank();
    auto& service = services[static_cast<std::size_t>(rank)];
    world::World world(plan, rank, membership(program, common.digest, host, [&] { return std::move(service); }),
                       [&](const WorldPlan&) { return shared; });
    run_to_the_end(world, common.planned, *runner);
  });
}

/// The process id in an environment variable. 0: it is not set.
std::int64_t process_in(const char* variable) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return 0;
  const std::string_view digits = text;
  std::int64_t process = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), process);
  if (error != std::errc() || end != digits.data() + digits.size())
    throw UsageError(fmt::format("{}={} is not a process id", variable, text));
  return process;
}

// Only our own launcher, or a guard of its ranks, sets these variables.
void tie_life_to_launcher() {
  const std::int64_t parent = process_in(protocol::environment::parent);
  if (parent != 0) world::tie_life_to(parent, process_in(protocol::environment::tracer));
}

CommonWorld read_world(const std::string& plan_file, const ProgramExtension& extension, const CommonProgram& program) {
  std::ifstream file(plan_file);
  if (!file) throw std::runtime_error(fmt::format("cannot read the plan {}", plan_file));
  CommonWorld common{.plan = base::parse_json(file).get<WorldPlan>()};
  if (!common.plan.scenarios.empty()) {
    common.played = extension.play_cases(common.plan);
  } else if (std::vector<BoundCase> drawn = cases::drawn_cases(program.cases, common.plan.cases); !drawn.empty()) {
    common.played.assign(program.cases.cases().begin(), program.cases.cases().end());
    std::ranges::move(drawn, std::back_inserter(common.played));
  }
  std::optional<cases::CaseTable> played;
  const cases::CaseTable& cases = common.played.empty() ? program.cases : played.emplace(common.played);
  common.planned = planned_cases(common.plan, cases);
  common.digest = cases.digest();
  return common;
}

bool has_thread_ranks(const WorldPlan& plan) { return plan.fabric == protocol::thread_fabric; }

/// In a warm process. An error comes again in each rank, which reports it. nullptr: there is an error, or no plan.
std::unique_ptr<CommonWorld> prepare_world(const ProgramExtension& extension, const CommonProgram& program) {
  try {
    const char* const plan_file = std::getenv(protocol::environment::plan);
    if (plan_file == nullptr) return nullptr;
    auto common = std::make_unique<CommonWorld>(read_world(plan_file, extension, program));
    if (!has_thread_ranks(common->plan)) {
      common->connection = world::connect_process(common->plan);
      common->catch_run = std::make_unique<runner::CatchRun>(catch_seed(common->plan));
    }
    return common;
  } catch (...) {
    return nullptr;
  }
}

/// `prepared`: by a warm process that this process is a copy of. `wait_to_begin` returns when the launcher knows this
/// process.
int run_ranks_of_ours(const std::string& plan_file, const Program& program, const ProgramExtension& extension,
                      const CommonProgram& of_program, const CommonWorld* prepared,
                      const std::function<void()>& wait_to_begin) {
  runner::save_coverage_at_sigterm();
  std::optional<CommonWorld> own;
  const CommonWorld& common =
      prepared != nullptr ? *prepared : own.emplace(read_world(plan_file, extension, of_program));
  const WorldPlan& plan = common.plan;
  const bool is_one_process = has_thread_ranks(plan);
  const auto identity = is_one_process ? std::nullopt : protocol::identity(protocol::own_variable);
  // Before a subject can install handlers of its own, and before Catch2 notes the present ones.
  runner::save_crashes(plan.rendezvous, identity ? std::optional(identity->rank) : std::nullopt);
  const ProgramExtension::ServiceMaker make_service = extension.services(plan);
  if (is_one_process) {
    wait_to_begin();
    take_every_part(common, program, of_program.host, make_service);
    return rank_left;
  }
  if (!identity || identity->launcher != "shardproof") {
    throw UsageError(fmt::format("{} is set but {} is not: a launcher sets both", protocol::environment::plan,
                                 protocol::environment::rank));
  }
  const auto connect = [&](const WorldPlan&) {
    wait_to_begin();
    return common.connection ? *common.connection : world::connect_process(plan);
  };
  take_part(plan, identity->rank, membership(program, common.digest, of_program.host, make_service), common.planned,
            connect, common.catch_run.get());
  return rank_left;
}

int run_as_rank_of_others(const CommandLine& line, const Program& program, const ProgramExtension& extension,
                          const CommonProgram& common) {
  const auto identity = protocol::identity(protocol::own_variable);
  if (!identity || identity->world_size == 0) {
    throw UsageError(
        "--run-dir is for a rank under torchrun, mpirun or srun, but the environment names no rank and size "
        "(RANK and WORLD_SIZE, OMPI_COMM_WORLD_*, PMI_*, SLURM_PROCID and SLURM_NTASKS): start it by one of them, or "
        "leave out --run-dir");
  }
  const runner::ForeignWorld world(
      *identity, line, runner::make_listing(program, extension, line.subject_library, common.cases.cases()));
  const std::vector<const BoundCase*> planned = planned_cases(world.plan(), common.cases);
  take_part(world.plan(), identity->rank,
            membership(program, common.cases.digest(), common.host, extension.services(world.plan())), planned,
            world::connect_process, nullptr);
  return rank_left;
}

/// Otherwise each rank of torchrun, mpirun or srun would start all ranks.
void require_no_foreign_launcher() {
  const auto identity = protocol::identity(protocol::own_variable);
  if (!identity || identity->world_size < 2) return;
  throw UsageError(
      fmt::format("{} started this program as rank {} of {}: give all ranks --run-dir DIR, or start the program alone",
                  identity->launcher, identity->rank, identity->world_size));
}

int run(std::span<char*> argv, const Program& program, const ProgramExtension& extension) {
  const std::vector<std::string_view> arguments(argv.begin() + std::min<std::ptrdiff_t>(1, std::ssize(argv)),
                                                argv.end());
  const std::string name = argv.empty() ? "program" : argv[0];
  const CommandLine line = runner::parse_command_line(arguments);
  if (line.mode == CommandLine::Mode::help) {
    fmt::print("{}", runner::usage(name));
    return rank_left;
  }
  if (line.mode != CommandLine::Mode::foreign) tie_life_to_launcher();
  using Mode = CommandLine::Mode;
  if (line.mode == Mode::list_gpus || line.mode == Mode::make_scenario || line.mode == Mode::shrink_scenario)
    return extension.answer(line);
  // The memory of the cases and of the world is not returned at the end of the process: that would cost each rank its
  // own copy of it.
  static cases::BoundCases& bound =
      *new cases::BoundCases(cases::bind_cases(declared_cases(), declared_suite_engines(), declared_engine_clauses()));
  std::ranges::move(extension.problems(bound.cases), std::back_inserter(bound.problems));
  if (const std::string plain = runner::CatchRun::plain_test_case(); !plain.empty()) {
    bound.problems.push_back(
        plain +
        ": a plain TEST_CASE would never run in a program of ranked cases; make it a RANKED_TEST_CASE with ranks(1)");
  }
  if (!bound.problems.empty()) {
    for (const std::string& problem : bound.problems) complain(problem);
    return line.mode == Mode::list ? runner::answer_with_problems(bound.problems) : protocol::rank_usage;
  }
  if (line.mode == Mode::check_scenario) return extension.answer(line);
  if (line.mode == Mode::list) return runner::answer_with_cases(program, extension, line.subject_library, bound.cases);
  static const CommonProgram& common = *new CommonProgram{.cases = cases::CaseTable(bound.cases)};
  if (line.mode == Mode::foreign) return run_as_rank_of_others(line, program, extension, common);
  static const CommonWorld* prepared = nullptr;
  base::FileDescriptor gate;
  if (line.mode == Mode::warm) {
    const bool has_subject = !line.subject.empty() || !line.subject_library.empty();
    runner::WarmEnd end = runner::stay_warm(has_subject ? extension.copier(line) : runner::plain_copier(),
                                            [&] { prepared = prepare_world(extension, common).release(); });
    if (end.code) return *end.code;
    gate = std::move(end.gate);
  }
  if (const char* plan = std::getenv(protocol::environment::plan)) {
    return run_ranks_of_ours(plan, program, extension, common, prepared, [&] {
      if (!gate) return;
      runner::wait_for_launcher(std::exchange(gate, {}));
      tie_life_to_launcher();  // of the rank that this process has become
    });
  }
  require_no_foreign_launcher();
  runner::become_launcher(name, arguments);
}

}  // namespace

int rank_main(int argc, char** argv, const Program& program, const ProgramExtension& extension) {
  const std::string name = argc > 0 ? argv[0] : "program";
  try {
    return run({argv, static_cast<std::size_t>(argc)}, program, extension);
  } catch (const UsageError& error) {
    complain(fmt::format("{}: {}", name, error.what()));
    return protocol::rank_usage;
  } catch (const control::Released& released) {
    complain(fmt::format("{}: {}", name, released.what()));
    return protocol::rank_released;
  } catch (const CouldNotGoOn& error) {
    complain(fmt::format("{}: {}", name, error.what()));
    return protocol::rank_could_not_go_on;
  } catch (const std::exception& error) {
    complain(fmt::format("{}: {}", name, error.what()));
    return protocol::rank_could_not_join;
  } catch (...) {
    complain(fmt::format("{}: an exception that is not a std::exception", name));
    return protocol::rank_could_not_join;
  }
}

}  // namespace shardproof

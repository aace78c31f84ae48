#include "tests/runner/world_driver.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <variant>

#include "harness/control/control_page.hpp"
#include "harness/protocol/environment.hpp"
#include "harness/protocol/run_directory.hpp"

namespace shardproof::test {

namespace {

std::string content(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

pid_t start(const std::string& program, const std::vector<std::string>& arguments,
            const std::map<std::string, std::string>& environment, const std::filesystem::path& output,
            const std::filesystem::path& errors) {
  const pid_t child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child > 0) return child;
  const auto redirect = [](const std::filesystem::path& file, int descriptor) {
    ::dup2(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), descriptor);
  };
  redirect(output, STDOUT_FILENO);
  redirect(errors, STDERR_FILENO);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  ::_exit(127);
}

constexpr char rank_of_mpirun[] =
    R"(SHARDPROOF_RANK=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} SHARDPROOF_PARENT=$$ "$0"; exit $?)";

}  // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "shardproof-test-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp " + name);
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

const protocol::event::CaseEnded& RankRemains::only_case() const {
  if (cases.size() != 1)
    throw std::logic_error(fmt::format("{} cases ended, not one; standard error: {}", cases.size(), errors));
  return cases.front();
}

void read_stream(const std::filesystem::path& file, RankRemains& into) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    protocol::RankEvent event = protocol::parse_line(line);
    if (std::holds_alternative<protocol::event::RankStarted>(event)) into.began = true;
    if (std::holds_alternative<protocol::event::RankEnded>(event)) into.ended = true;
    if (auto* ended = std::get_if<protocol::event::CaseEnded>(&event)) into.cases.push_back(std::move(*ended));
    if (auto* failed = std::get_if<protocol::event::AssertionFailed>(&event))
      into.failures.push_back(std::move(*failed));
    if (auto* measured = std::get_if<protocol::event::Measured>(&event))
      into.measurements.push_back(std::move(*measured));
  }
}

WorldRemains run_world(const std::string& program, int size, std::vector<std::string> cases,
                       const WorldOptions& options) {
  const TemporaryDirectory run;
  protocol::WorldPlan plan;
  plan.size = size;
  plan.nonce = run.path().filename();
  plan.rendezvous = run.path() / "rendezvous";
  plan.directory = protocol::RunDirectory{run.path()}.world(0).root;
  plan.subject.clear();
  plan.cases = std::move(cases);
  if (options.plan) options.plan(plan);
  const protocol::WorldDirectory world{plan.directory};
  std::filesystem::create_directories(world.logs());
  std::filesystem::create_directories(plan.rendezvous);
  control::ControlPage control = control::ControlPage::create(plan.rendezvous / "control", size, plan.nonce);
  std::ofstream(world.plan()) << nlohmann::ordered_json(plan).dump();

  WorldRemains remains;
  remains.ranks.resize(static_cast<std::size_t>(size));
  std::map<pid_t, int> running;
  if (!options.mpirun.empty()) {
    // The shell is the launcher of its rank: a rank ends with its launcher.
    std::vector<std::string> arguments(options.mpirun.begin() + 1, options.mpirun.end());
    for (const std::string& argument : {std::string("-n"), std::to_string(size), std::string("/bin/sh"),
                                        std::string("-c"), std::string(rank_of_mpirun), program})
      arguments.push_back(argument);
    const pid_t started =
        start(options.mpirun.front(), arguments, {{protocol::environment::plan, world.plan().string()}},
              world.standard_output(0), world.standard_error(0));
    int status = 0;
    if (::waitpid(started, &status, 0) < 0) throw std::system_error(errno, std::generic_category(), "waitpid");
    for (int rank = 0; rank < size; ++rank) {
      RankRemains& remain = remains.ranks[static_cast<std::size_t>(rank)];
      if (WIFEXITED(status)) remain.exit_code = WEXITSTATUS(status);
      remain.left = control.progress(rank).left;
    }
  }
  for (int rank = 0; rank < size && options.mpirun.empty(); ++rank) {
    const std::map<std::string, std::string> environment{{protocol::environment::plan, world.plan().string()},
                                                         {protocol::environment::rank, std::to_string(rank)},
                                                         {protocol::environment::parent, std::to_string(::getpid())}};
    const auto begin = [&](const std::string& executable, const std::vector<std::string>& arguments) {
      return start(executable, arguments, environment, world.standard_output(rank), world.standard_error(rank));
    };
    running[options.shell.empty() ? begin(program, {}) : begin("/bin/sh", {"-c", options.shell, program})] = rank;
  }
  while (!running.empty()) {
    int status = 0;
    const pid_t child = ::waitpid(-1, &status, 0);
    if (child < 0) throw std::system_error(errno, std::generic_category(), "waitpid");
    const auto ended = running.find(child);
    if (ended == running.end()) continue;
    const int rank = ended->second;
    running.erase(ended);
    RankRemains& remain = remains.ranks[static_cast<std::size_t>(rank)];
    if (WIFEXITED(status)) remain.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) remain.signal = WTERMSIG(status);
    remain.left = control.progress(rank).left;
    if (!remain.left)
      control.doom(
          {.culprit = rank, .reason = control::AbortReason::died, .text = fmt::format("rank {} is gone", rank)});
  }
  for (int rank = 0; rank < size; ++rank) {
    RankRemains& remain = remains.ranks[static_cast<std::size_t>(rank)];
    remain.errors = content(world.standard_error(rank));
    remain.output = content(world.standard_output(rank));
    read_stream(world.rank_stream(rank), remain);
  }
  if (std::filesystem::exists(world.traces())) {
    for (const auto& entry : std::filesystem::directory_iterator(world.traces()))
      remains.traces[entry.path().filename()] = content(entry.path());
  }
  return remains;
}

std::vector<ProgramEnd> run_program(const std::string& program, std::vector<std::string> arguments, int count,
                                    const std::function<std::map<std::string, std::string>(int)>& environment) {
  const TemporaryDirectory directory;
  const auto file = [&](int copy, const char* what) { return directory.path() / fmt::format("{}.{}", copy, what); };
  std::vector<pid_t> children;
  for (int copy = 0; copy < count; ++copy) {
    children.push_back(start(program, arguments, environment ? environment(copy) : std::map<std::string, std::string>{},
                             file(copy, "out"), file(copy, "err")));
  }
  std::vector<ProgramEnd> ends(children.size());
  for (int copy = 0; copy < count; ++copy) {
    const auto index = static_cast<std::size_t>(copy);
    int status = 0;
    if (::waitpid(children[index], &status, 0) < 0) throw std::system_error(errno, std::generic_category(), "waitpid");
    if (WIFEXITED(status)) ends[index].exit_code = WEXITSTATUS(status);
    ends[index].output = content(file(copy, "out"));
    ends[index].errors = content(file(copy, "err"));
  }
  return ends;
}

}  // namespace shardproof::test

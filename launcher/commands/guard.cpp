// `shardproof guard`: the process that the command of `run --launcher` starts for a rank. It starts the rank, and
// reports how the rank ends. Users do not call it.
#include "launcher/run/guard.hpp"

#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {
namespace {

constexpr HelpText guard_help{
    .name = "guard",
    .summary = "Start one rank of a world, and report how it ends. `run --launcher` adds this command to yours.",
    .examples =
        "    shardproof run --launcher 'mpirun -n {ranks}'\n"
        "                                                 lets mpirun start a guard for each rank\n",
    .arguments = "",
    .footer =
        "Exit codes:\n"
        "    2  The environment names no rank of this world.\n"
        "    3  This host does not reach `shardproof run`, or that has ended.\n"
        "    0  The world is over, however its rank ended.",
    .is_internal = true};

class GuardCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return guard_help; }

  void declare(OptionDeclarations& options) override {
    options.value(course_group, "--join", world_, "DIRECTORY", "The directory of the world, worlds/K of a run.");
  }

  void convert(const Arguments& arguments) override { require_arguments(arguments, {{"--join DIRECTORY", world_}}); }

  int run(const std::vector<std::string>& /*argv*/) override { return guard_rank(world_); }

 private:
  std::filesystem::path world_;
};

}  // namespace

std::unique_ptr<Subcommand> make_guard_command() { return std::make_unique<GuardCommand>(); }

}  // namespace shardproof::launcher

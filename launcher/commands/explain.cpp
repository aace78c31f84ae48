// `shardproof explain`: why worlds of a run ended early, from the files of the run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/records.hpp"
#include "reports/explain/explanation.hpp"
#include "reports/export/terminal.hpp"
#include "reports/merge/rank_stream.hpp"

namespace shardproof::launcher {
namespace {

constexpr HelpText explain_help{
    .name = "explain",
    .summary = "Say why worlds of a run ended early: which rank died or hung, where, and which ranks waited.",
    .examples =
        "    shardproof explain shardproof-out/latest     the latest run\n"
        "    shardproof explain my_run/worlds/2           one of its worlds\n",
    .arguments = "DIRECTORY",
    .footer =
        "After a run with --nccl-tap, the command also lists the NCCL calls of the ranks.\n"
        "\n"
        "Exit codes:\n"
        "    0  The command explained the worlds.\n"
        "    2  The command line is wrong, the directory is not a run, or output cannot be written.\n"
        "    5  Evidence cannot be read, or no process saw how the ranks ended."};

/// The worlds that `asked` names: all worlds of a run, or the world whose folder or evidence it is.
std::vector<WorldDirectory> worlds_of(const std::filesystem::path& asked) {
  const std::filesystem::path directory = std::filesystem::absolute(asked / "").lexically_normal().parent_path();
  if (!std::filesystem::is_directory(directory))
    throw CommandError(usage, fmt::format("{} is no directory", asked.string()));
  for (const WorldDirectory& world : {WorldDirectory{directory}, WorldDirectory{directory.parent_path()}}) {
    const bool is_meant =
        world.root == directory ? std::filesystem::is_directory(world.ranks()) : world.evidence() == directory;
    if (is_meant && std::filesystem::exists(world.plan())) return {world};
  }
  std::vector<WorldDirectory> worlds;
  for (const auto& [number, world] : find_worlds({directory})) worlds.push_back(world);
  if (worlds.empty())
    throw CommandError(usage,
                       fmt::format("{}: neither a run directory nor one of its worlds (RUN/worlds/K)", asked.string()));
  return worlds;
}

/// The text about worlds, and the evidence that could not be read.
struct Told {
  std::string text;
  bool somebody_ended = false;  ///< a world ended early
  bool is_known = true;
  std::vector<std::string> damage;  ///< a sentence for each unreadable file
};

/// Adds the NCCL calls of the world's ranks, if they ran under the tap.
void tell_nccl(Told& told, const WorldDirectory& world, int world_size) {
  const std::optional<NcclRecords> kept = read_nccl_records(world);
  if (!kept) return;
  for (const std::string& sentence : tell(*kept, world, world_size))
    told.text += fmt::format("world {}, NCCL: {}\n", world.root.filename().string(), reports::printable(sentence));
  told.is_known = told.is_known && kept->defects.empty();
}

void tell_world(Told& told, const WorldDirectory& world) {
  const WorldPlan plan = read_plan(world);
  const Remains remains = read_remains(world, plan.size);
  told.damage.insert(told.damage.end(), remains.defects.begin(), remains.defects.end());
  std::string explanation = reports::explain(plan, remains.endings, remains.flight ? &*remains.flight : nullptr);
  // If ranks left together, each stream has the reason.
  if (explanation.empty()) explanation = reports::read_rank_stream(world.rank_stream(0)).cut_short;
  const auto was_seen = [](const Ending& ending) { return ending.how != Ending::How::foreign; };
  if (std::ranges::none_of(remains.endings, was_seen)) {
    told.is_known = false;
    told.somebody_ended = true;  // possibly
    told.text +=
        fmt::format("world {}: no process saw how its ranks ended; `shardproof merge` reports what they left\n",
                    world.root.filename().string());
  }
  told.somebody_ended = told.somebody_ended || !explanation.empty();
  if (!explanation.empty())
    told.text += fmt::format("world {}: {}\n", world.root.filename().string(), reports::printable(explanation));
  tell_nccl(told, world, plan.size);
}

class ExplainCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return explain_help; }

  void declare(OptionDeclarations& options) override {
    options.argument("directory", directory_, "The run directory, or one of its worlds.");
    options.help(terminal_group);
  }

  void convert(const Arguments& arguments) override { require_arguments(arguments, {{"DIRECTORY", directory_}}); }

  int run(const std::vector<std::string>& /*argv*/) override {
    Told told;
    for (const WorldDirectory& world : worlds_of(directory_)) {
      if (!std::filesystem::exists(world.plan())) continue;  // planned, and never begun
      try {
        tell_world(told, world);
      } catch (const std::exception& error) {
        told.damage.emplace_back(error.what());  // the other worlds are still explained
        told.somebody_ended = true;  // possibly
      }
    }
    say((told.somebody_ended ? "" : "no world ended early\n") + told.text);
    if (!told.damage.empty()) throw CommandError(evidence_unusable, fmt::format("{}", fmt::join(told.damage, "\n")));
    return told.is_known ? all_passed : evidence_unusable;
  }

 private:
  std::filesystem::path directory_;
};

}  // namespace

std::unique_ptr<Subcommand> make_explain_command() { return std::make_unique<ExplainCommand>(); }

}  // namespace shardproof::launcher

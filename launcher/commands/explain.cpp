// `shardproof explain`: why worlds of a run ended early, from the files of the run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/records.hpp"
#include "reports/explain/crash_text.hpp"
#include "reports/explain/explanation.hpp"
#include "reports/explain/printed_text.hpp"
#include "reports/export/terminal.hpp"
#include "reports/merge/rank_stream.hpp"

namespace shardproof::launcher {

using protocol::WorldDirectory;

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

/// The worlds that `requested` names: all worlds of a run, or the world whose folder or evidence it is.
std::vector<WorldDirectory> worlds_of(const std::filesystem::path& requested) {
  const std::filesystem::path directory = std::filesystem::absolute(requested / "").lexically_normal().parent_path();
  if (!std::filesystem::is_directory(directory))
    throw CommandError(usage, fmt::format("{} is not a directory", requested.string()));
  for (const WorldDirectory& world : {WorldDirectory{directory}, WorldDirectory{directory.parent_path()}}) {
    const bool is_meant =
        world.root == directory ? std::filesystem::is_directory(world.ranks()) : world.evidence() == directory;
    if (is_meant && std::filesystem::exists(world.plan())) return {world};
  }
  std::vector<WorldDirectory> worlds;
  for (const auto& [number, world] : find_worlds({directory})) worlds.push_back(world);
  if (worlds.empty())
    throw CommandError(
        usage, fmt::format("{}: neither a run directory nor one of its worlds (RUN/worlds/K)", requested.string()));
  return worlds;
}

/// The text about worlds, and the evidence that could not be read.
struct RunExplanation {
  std::string text;
  bool ended_early = false;  ///< a world ended early
  bool is_known = true;
  std::vector<std::string> damage;  ///< a sentence for each unreadable file
};

/// Adds the NCCL calls of the world's ranks, if they ran under the tap.
void add_nccl_calls(RunExplanation& explained, const WorldDirectory& world, int world_size) {
  const std::optional<NcclRecords> records = read_nccl_records(world);
  if (!records) return;
  for (const std::string& sentence : describe_nccl_calls(*records, world, world_size))
    explained.text += fmt::format("world {}, NCCL: {}\n", world.root.filename().string(), reports::printable(sentence));
  explained.is_known = explained.is_known && records->defects.empty();
}

/// Adds what ranks printed in cases that went wrong.
void add_output(RunExplanation& explained, const WorldDirectory& world, const protocol::WorldPlan& plan) {
  constexpr std::size_t most_files = 16;
  static const std::regex form(R"((.*)\.rank-(\d{1,4})\.(out|err))");
  std::vector<std::string> names;
  std::error_code ignored;  // a world without evidence
  for (const auto& file : std::filesystem::directory_iterator(world.evidence(), ignored)) {
    if (std::string name = file.path().filename().string(); std::regex_match(name, form))
      names.push_back(std::move(name));
  }
  if (names.empty()) return;
  std::ranges::sort(names);
  std::map<std::string, std::string> ids;  // by file name
  for (const std::string& id : plan.cases) ids.emplace(protocol::case_file_name(id), id);
  std::string shown;
  for (const std::string& name : std::span(names).first(std::min(names.size(), most_files))) {
    std::smatch parts;
    std::regex_match(name, parts, form);
    const auto id = ids.find(parts[1]);
    if (id == ids.end()) continue;
    const int rank = std::stoi(parts[2]);
    const auto log = parts[3] == "out" ? world.standard_output(rank) : world.standard_error(rank);
    if (id->second != shown)
      explained.text += fmt::format("world {}: {}\n", world.root.filename().string(), reports::printable(id->second));
    shown = id->second;
    explained.text +=
        reports::printed_text(rank, last_words(world.evidence() / name), relative_to_current(log).string());
  }
  if (names.size() > most_files)
    explained.text += fmt::format("  … and {} more outputs of ranks in {}\n", names.size() - most_files,
                                  relative_to_current(world.evidence()).string());
}

void add_world_text(RunExplanation& explained, const WorldDirectory& world) {
  const protocol::WorldPlan plan = read_plan(world);
  const WorldEvidence evidence = read_evidence(world, plan.size);
  explained.damage.insert(explained.damage.end(), evidence.defects.begin(), evidence.defects.end());
  std::string explanation = reports::explain(plan, evidence.endings, evidence.flight ? &*evidence.flight : nullptr);
  // If ranks left together, each stream has the reason.
  if (explanation.empty()) explanation = reports::read_rank_stream(world.rank_stream(0)).cut_short;
  const auto was_seen = [](const protocol::Ending& ending) { return ending.how != protocol::Ending::How::foreign; };
  if (std::ranges::none_of(evidence.endings, was_seen)) {
    explained.is_known = false;
    explained.ended_early = true;  // possibly
    explained.text +=
        fmt::format("world {}: no process saw how its ranks ended; `shardproof merge` reports what they left\n",
                    world.root.filename().string());
  }
  explained.ended_early = explained.ended_early || !explanation.empty();
  if (!explanation.empty())
    explained.text += fmt::format("world {}: {}\n", world.root.filename().string(), reports::printable(explanation));
  add_nccl_calls(explained, world, plan.size);
  for (const protocol::Ending& ending : evidence.endings) {
    if (ending.is_cause)
      explained.text += reports::crash_excerpt(ending.rank, whole_text(world.crash(ending.rank)),
                                               relative_to_current(world.crash(ending.rank)).string());
    if (ending.is_cause && !ending.last_words.empty())
      explained.text += reports::printed_text(ending.rank, ending.last_words,
                                              relative_to_current(world.standard_error(ending.rank)).string());
  }
  add_output(explained, world, plan);
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
    RunExplanation explained;
    for (const WorldDirectory& world : worlds_of(directory_)) {
      if (!std::filesystem::exists(world.plan())) continue;  // planned, and never begun
      try {
        add_world_text(explained, world);
      } catch (const std::exception& error) {
        explained.damage.emplace_back(error.what());  // the other worlds are still explained
        explained.ended_early = true;  // possibly
      }
    }
    print_output((explained.ended_early ? "" : "no world ended early\n") + explained.text);
    if (!explained.damage.empty())
      throw CommandError(evidence_unusable, fmt::format("{}", fmt::join(explained.damage, "\n")));
    return explained.is_known ? all_passed : evidence_unusable;
  }

 private:
  std::filesystem::path directory_;
};

}  // namespace

std::unique_ptr<Subcommand> make_explain_command() { return std::make_unique<ExplainCommand>(); }

}  // namespace shardproof::launcher

// `shardproof explain`: why worlds of a run ended early, and why cases failed, from the files of the run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/input_file.hpp"
#include "harness/base/rank_list.hpp"
#include "harness/protocol/ending.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/report_file.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/recorded_run.hpp"
#include "launcher/run/records.hpp"
#include "launcher/terminal/run_files.hpp"
#include "reports/explain/causes.hpp"
#include "reports/export/columns.hpp"
#include "reports/export/crash_text.hpp"
#include "reports/export/failure_text.hpp"
#include "reports/export/printed_text.hpp"
#include "reports/export/summary.hpp"
#include "reports/export/terminal.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

using protocol::WorldDirectory;

namespace {

constexpr HelpText explain_help{
    .name = "explain",
    .summary = "Say why worlds ended early and why cases failed: which rank, where, what others did.",
    .examples =
        "    shardproof explain shardproof-out/latest     the latest run\n"
        "    shardproof explain my_run/worlds/2           one of its worlds\n",
    .arguments = "DIRECTORY",
    .footer =
        "For a case that failed, crashed or hung, the command prints the text of `run`. It adds what each\n"
        "rank of a failed case did. After a run with --nccl-tap, it also lists the NCCL calls of the ranks.\n"
        "It does not change the directory.\n"
        "\n"
        "Exit codes:\n"
        "    0  The command explained the worlds.\n"
        "    2  The command line is wrong, the directory is not a run, or output cannot be written.\n"
        "    5  Evidence is missing or cannot be read, or no process saw how the ranks ended."};

/// The run or the world that `requested` names: by its directory, or by the folder with a world's evidence.
RecordedRun recorded_run_of(const std::filesystem::path& directory) {
  for (const WorldDirectory& world : {WorldDirectory{directory}, WorldDirectory{directory.parent_path()}}) {
    if (world.root != directory && world.evidence() != directory) continue;
    if (const auto found = as_world(world.root)) return RecordedRun(*found);
  }
  return RecordedRun(protocol::RunDirectory{directory});
}

/// `ranks 0, 2 passed (3 assertions each), rank 1 failed (2 assertions)`
std::string outcomes_text(const reports::CaseResult& result) {
  std::map<std::pair<protocol::Outcome, std::uint64_t>, std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < result.ranks.size(); ++rank)
    ranks[{result.ranks[rank].outcome, result.ranks[rank].assertions}].push_back(static_cast<int>(rank));
  std::vector<std::string> texts;
  for (const auto& [outcome, who] : ranks)
    texts.push_back(fmt::format("{} {} ({} assertion{})", base::rank_list(who), protocol::to_string(outcome.first),
                                outcome.second, outcome.second == 1 ? "" : "s"));
  return fmt::format("  outcomes: {}\n", fmt::join(texts, ", "));
}

/// The texts about one world.
struct WorldText {
  std::string text;
  bool has_death = false;  ///< The text of a case shows why the world ended early.
};

/// The text of `run` about each case that went wrong, by the index of its world.
std::map<int, WorldText> failures_by_world(const reports::Report& report, const reports::TextStyle& style) {
  std::map<int, WorldText> worlds;
  for (const reports::CauseGroup& group : reports::failure_groups(report, style)) {
    const reports::CaseResult& shown = *group.shown;
    const bool is_death = shown.verdict == reports::Verdict::crashed || shown.verdict == reports::Verdict::hung;
    WorldText& world = worlds[shown.world];
    world.text += fmt::format("world {}: {}", report.worlds.at(static_cast<std::size_t>(shown.world)).number,
                              reports::failure_text(group, report, style));
    if (!is_death) world.text += outcomes_text(shown);
    world.has_death = world.has_death || is_death;
  }
  return worlds;
}

/// Why a world ended early that no case shows: a rank died between cases, say, or a waiver excuses the case.
std::string explanation_text(const reports::WorldResult& world, const reports::TextStyle& style) {
  std::string text = fmt::format("world {}: {}\n", world.number, reports::printable_line(world.explanation));
  const std::string folder = fmt::format("{}worlds/{}/", style.run_directory, world.number);
  for (const protocol::Ending& ending : world.endings) {
    if (!ending.is_cause) continue;
    text += reports::crash_excerpt(ending.rank, style.crash(world.number, ending.rank),
                                   fmt::format("{}evidence/rank-{}.crash", folder, ending.rank));
    if (!ending.last_words.empty())
      text +=
          reports::printed_text(ending.rank, ending.last_words, fmt::format("{}logs/rank-{}.err", folder, ending.rank));
  }
  return text;
}

/// Whether no process saw how the world's ranks ended. A world without endings never began, or is lost.
bool has_unseen_end(const reports::WorldResult& world) {
  const auto is_unseen = [](const protocol::Ending& ending) { return ending.how == protocol::Ending::How::foreign; };
  return !world.endings.empty() && std::ranges::all_of(world.endings, is_unseen);
}

/// The worlds of a run, as text.
struct Explanation {
  std::string text;
  bool is_damaged = false;  ///< A file is missing or unreadable, or no process saw how ranks ended.
};

/// Adds the NCCL calls of the world's ranks, if they ran under the tap.
void add_nccl_calls(Explanation& explained, int number, const WorldDirectory& directory, int world_size) {
  const std::optional<NcclRecords> records = read_nccl_records(directory);
  if (!records) return;
  for (const std::string& sentence : describe_nccl_calls(*records, directory, world_size))
    explained.text += fmt::format("world {}, NCCL: {}\n", number, reports::printable_line(sentence));
  explained.is_damaged = explained.is_damaged || !records->defects.empty();
}

/// `directories`: the worlds that have a folder, by number.
Explanation explain(const MergedRun& merged, const std::map<int, WorldDirectory>& directories,
                    const reports::TextStyle& style) {
  const reports::Report& report = merged.report;
  Explanation explained{.text = {}, .is_damaged = !merged.defects.empty()};
  bool ended_early = false;
  const std::map<int, WorldText> failures = failures_by_world(report, style);
  for (const std::size_t index : reports::by_number(report.worlds)) {
    const reports::WorldResult& world = report.worlds[index];
    const auto failed = failures.find(static_cast<int>(index));
    const bool is_shown = failed != failures.end() && failed->second.has_death;
    if (!world.explanation.empty() && !is_shown) explained.text += explanation_text(world, style);
    if (has_unseen_end(world))
      explained.text += fmt::format("world {}: no process saw how its ranks ended\n", world.number);
    if (failed != failures.end()) explained.text += failed->second.text;
    if (const auto directory = directories.find(world.number); directory != directories.end())
      add_nccl_calls(explained, world.number, directory->second, world.size);
    ended_early = ended_early || !world.explanation.empty() || has_unseen_end(world);
    explained.is_damaged = explained.is_damaged || !world.defects.empty() || has_unseen_end(world);
  }
  explained.text += reports::defects_text(report, style) + reports::not_run_text(report, style);
  if (!ended_early && !explained.is_damaged)
    explained.text.insert(0,
                          failures.empty() ? "no world ended early\n" : "no world ended early; cases that failed:\n");
  return explained;
}

/// Adds a defect for a damaged report: other commands read it. A run whose launcher was killed has none.
void check_report(RecordedRun& recorded, const protocol::RunDirectory& run) {
  if (!base::is_there(run.report())) return;
  try {
    read_report_file(run.root, reports::read_report);
  } catch (const CommandError& error) {
    recorded.add_defect(error.what());
  }
}

class ExplainCommand final : public Subcommand {
 public:
  const HelpText& help() const override { return explain_help; }

  void declare(OptionDeclarations& options) override {
    options.argument("directory", directory_,
                     "The run directory, one of its worlds, or the evidence folder of a world.");
    options.help(terminal_group);
  }

  void convert(const Arguments& arguments) override { require_arguments(arguments, {{"DIRECTORY", directory_}}); }

  int run(const std::vector<std::string>& /*argv*/) override {
    require_run_directory(directory_);
    const std::filesystem::path directory = std::filesystem::absolute(directory_ / "").lexically_normal().parent_path();
    RecordedRun recorded = recorded_run_of(directory);
    if (recorded.is_empty())
      throw CommandError(
          usage, fmt::format("{}: neither a run directory nor one of its worlds (RUN/worlds/K)", directory_.string()));
    check_report(recorded, {directory});
    const std::map<int, WorldDirectory> directories = recorded.worlds();
    const std::optional<protocol::Listing> listing = recorded.read_recorded_listing();
    const MergedRun merged = recorded.merge(listing);
    reports::TextStyle style;
    show_files_of(style, recorded.run());
    for (const protocol::ClauseInfo& clause : listing ? listing->clauses : std::vector<protocol::ClauseInfo>())
      style.clauses[clause.id] = clause.text;
    const Explanation explained = explain(merged, directories, style);
    print_output(reports::fitted(explained.text));
    for (const std::string& defect : merged.defects) print_error(reports::printable_line(defect));
    return explained.is_damaged ? evidence_unusable : all_passed;
  }

 private:
  std::filesystem::path directory_;
};

}  // namespace

std::unique_ptr<Subcommand> make_explain_command() { return std::make_unique<ExplainCommand>(); }

}  // namespace shardproof::launcher

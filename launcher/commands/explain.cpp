// `shardproof explain`: why worlds of a run ended early, and why cases failed, from the files of the run.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/input_file.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/base/rank_list.hpp"
#include "launcher/commands/commands.hpp"
#include "launcher/commands/option_declarations.hpp"
#include "launcher/commands/subcommand.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/run/records.hpp"
#include "launcher/terminal/run_files.hpp"
#include "launcher/worker_client/worker.hpp"
#include "reports/explain/crash_text.hpp"
#include "reports/explain/explanation.hpp"
#include "reports/explain/printed_text.hpp"
#include "reports/export/failure_text.hpp"
#include "reports/export/terminal.hpp"
#include "reports/merge/rank_stream.hpp"

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
        "For a failed case, the command prints the text of `run` and what each rank did. The text has the\n"
        "last lines that the first two failed ranks printed. After a run with --nccl-tap, the command also\n"
        "lists the NCCL calls of the ranks.\n"
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
    if (is_meant && base::is_there(world.plan())) return {world};
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

/// The run that the world belongs to.
protocol::RunDirectory run_of(const WorldDirectory& world) { return {world.root.parent_path().parent_path()}; }

/// The head of the run. Another launcher writes none. `merge` reports a damaged one.
reports::RunHead head_of(const WorldDirectory& world, const protocol::WorldPlan& plan) {
  try {
    return base::parse_json(base::read_evidence(run_of(world).run())).get<reports::RunHead>();
  } catch (const std::exception&) {
    reports::RunHead head;
    head.seed = plan.seed;
    head.subject = plan.subject;
    head.fault = plan.fault;
    return head;
  }
}

CaseIndex cases_of(const WorldDirectory& world) {
  try {
    return CaseIndex(parse_listing(base::read_evidence(listing_file(run_of(world)))).cases);
  } catch (const std::exception&) {
    return {};
  }
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

/// The failed cases of the world. The sentence of a world has its crash or its hang.
std::string failures_text(const WorldDirectory& world, const protocol::WorldPlan& plan, const WorldEvidence& evidence) {
  reports::Merger merger(head_of(world, plan));
  add_world(merger, plan, cases_of(world), evidence, world);
  reports::Report report = merger.finish();
  std::erase_if(report.cases, [](const reports::CaseResult& result) {
    return result.verdict == reports::Verdict::crashed || result.verdict == reports::Verdict::hung;
  });
  reports::TextStyle style;
  show_files_of(style, run_of(world));
  std::string text;
  for (const reports::CauseGroup& group : reports::failure_groups(report, style)) {
    text += fmt::format("world {}: {}{}", world.root.filename().string(), reports::failure_text(group, report, style),
                        outcomes_text(*group.shown));
  }
  return text;
}

/// Adds the NCCL calls of the world's ranks, if they ran under the tap.
void add_nccl_calls(RunExplanation& explained, const WorldDirectory& world, int world_size) {
  const std::optional<NcclRecords> records = read_nccl_records(world);
  if (!records) return;
  for (const std::string& sentence : describe_nccl_calls(*records, world, world_size))
    explained.text +=
        fmt::format("world {}, NCCL: {}\n", world.root.filename().string(), reports::printable_line(sentence));
  explained.is_known = explained.is_known && records->defects.empty();
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
    explained.text +=
        fmt::format("world {}: {}\n", world.root.filename().string(), reports::printable_line(explanation));
  for (int rank = 0; rank < plan.size; ++rank) {
    const reports::RankStream stream = reports::read_rank_stream(world.rank_stream(rank));
    if (!stream.absent && !stream.defect.empty())
      explained.damage.push_back(fmt::format("{}: {}", world.rank_stream(rank).string(), stream.defect));
  }
  explained.text += failures_text(world, plan, evidence);
  add_nccl_calls(explained, world, plan.size);
  for (const protocol::Ending& ending : evidence.endings) {
    if (ending.is_cause)
      explained.text += reports::crash_excerpt(ending.rank, evidence_text(world.crash(ending.rank)),
                                               relative_to_current(world.crash(ending.rank)).string());
    if (ending.is_cause && !ending.last_words.empty())
      explained.text += reports::printed_text(ending.rank, ending.last_words,
                                              relative_to_current(world.standard_error(ending.rank)).string());
  }
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
      if (!base::is_there(world.plan()) && !has_begun(world)) continue;  // planned, and never begun
      try {
        add_world_text(explained, world);
      } catch (const std::exception& error) {
        explained.damage.emplace_back(error.what());  // the other worlds are still explained
        explained.ended_early = true;  // possibly
      }
    }
    print_output((explained.ended_early ? "" : "no world ended early\n") + explained.text);
    for (std::string& damage : explained.damage) damage = reports::printable_line(damage);
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

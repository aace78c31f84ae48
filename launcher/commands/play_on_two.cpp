// `shardproof play` with two subjects: shows how they differ on one scenario.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/commands/play.hpp"
#include "launcher/commands/play_output.hpp"
#include "launcher/explore/contenders.hpp"
#include "launcher/explore/side_by_side.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {
namespace {

std::string title(const Document& document, const std::array<Contender, 2>& contenders) {
  return fmt::format("{}: {} rank{}, {}", document.file.string(), document.ranks, document.ranks == 1 ? "" : "s",
                     names_text(contenders));
}

bool was_lost(const DocumentPlay& played) {
  return played.play.verdict == reports::Verdict::crashed || played.play.verdict == reports::Verdict::hung;
}

void require_text_or_json(const PlayOptions& options) {
  if (!options.trace.empty())
    throw CommandError(usage, "--trace with two subjects: a trace is of one; play it on each alone");
  if (options.show_plan || !options.plan_dot.empty())
    throw CommandError(
        usage,
        fmt::format("{} with two subjects: --show-plan works with one subject: play the scenario on each subject alone",
                    options.show_plan ? "--show-plan" : "--plan-dot"));
}

std::vector<SideBySide> play_documents_on_two(std::array<Contender, 2>& contenders,
                                              const std::vector<Document>& documents, const PlayOptions& options,
                                              const std::vector<std::string>& argv, SignalWatch& signals) {
  if (documents.empty()) return {};
  const rendezvous::RendezvousDirectory scratch = rendezvous::RendezvousDirectory::make(1);
  const bool keeps_runs = !options.out.directory.empty();
  const ClaimedDirectory claimed(keeps_runs ? options.out : OutputOptions{.directory = scratch.path() / "runs"});
  const std::filesystem::path& place = claimed.path();
  prepare(contenders, place, signals);
  return play_side_by_side(contenders, documents, options.ulps, place, argv, signals);
}

}  // namespace

int play_on_two(const PlayOptions& options, const std::vector<std::string>& argv) {
  require_text_or_json(options);
  for (const std::filesystem::path& scenario : options.scenarios) require_not_replaced(scenario, options.out);
  SignalWatch signals;
  std::array<Contender, 2> contenders = find_contenders(options.plan, options.worker, signals);
  std::vector<CheckedDocument> checked = check_documents(options, contenders, signals);
  const std::vector<SideBySide> plays = play_documents_on_two(contenders, playable(checked), options, argv, signals);

  PlayOutput output(options.json ? stderr : stdout, options);
  bool is_different = false, is_lost = false;
  auto next = plays.begin();
  for (CheckedDocument& each : checked) {
    const SideBySide* const both = each.refusal.empty() ? &*next++ : nullptr;
    if (both != nullptr && !both->plays[0].skipped.empty() && !both->plays[1].skipped.empty())
      each.refusal = fmt::format("{} cannot be played: {}", each.document.file.string(), both->plays[0].skipped);
    if (!each.refusal.empty()) {
      output.refuse(each);
      continue;
    }
    is_different = is_different || !both->comparison.alike();
    is_lost = is_lost || (both->comparison.alike() && was_lost(both->plays[0]));
    if (output.is_json()) output.show(each.document, "", to_json(*both, contenders));
    else output.show(title(each.document, contenders), to_text(*both));
  }
  output.print_array();
  output.finish();
  if (output.is_refused()) return usage;
  if (is_different) return case_failed;
  return is_lost ? crashed_or_hung : all_passed;
}

}  // namespace shardproof::launcher

// `shardproof play` with two subjects: shows how they differ on one scenario.
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/json_text.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/commands/play.hpp"
#include "launcher/explore/contenders.hpp"
#include "launcher/explore/side_by_side.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "reports/export/columns.hpp"

namespace shardproof::launcher {
namespace {

std::string title(const Document& document, const std::array<Contender, 2>& contenders) {
  return fmt::format("{}: {} rank{}, {}", document.file.string(), document.ranks, document.ranks == 1 ? "" : "s",
                     names_text(contenders));
}

bool was_lost(const DocumentPlay& played) {
  return played.play.verdict == reports::Verdict::crashed || played.play.verdict == reports::Verdict::hung;
}

}  // namespace

int play_on_two(const PlayOptions& options, const std::vector<std::string>& argv) {
  if (!options.trace.empty())
    throw CommandError(usage, "--trace with two subjects: a trace is of one; play it on each alone");
  if (options.show_plan || !options.plan_dot.empty())
    throw CommandError(
        usage,
        fmt::format("{} with two subjects: --show-plan works with one subject: play the scenario on each subject alone",
                    options.show_plan ? "--show-plan" : "--plan-dot"));
  for (const std::filesystem::path& scenario : options.scenarios) require_not_replaced(scenario, options.out);
  SignalWatch signals;
  std::array<Contender, 2> contenders = find_contenders(options.plan, options.worker, signals);
  std::vector<AskedDocument> asked = check_documents(options, contenders, signals);
  const std::vector<Document> documents = playable(asked);

  std::vector<SideBySide> plays;
  if (!documents.empty()) {
    const rendezvous::RendezvousDirectory scratch = rendezvous::RendezvousDirectory::make(1);
    const bool keeps_runs = !options.out.directory.empty();
    const ClaimedDirectory claimed(keeps_runs ? options.out : OutputOptions{.directory = scratch.path() / "runs"});
    const std::filesystem::path& place = claimed.path();
    prepare(contenders, place, signals);
    plays = play_side_by_side(contenders, documents, options.ulps, place, argv, signals);
  }

  Terminal terminal(options.json ? stderr : stdout, options.terminal);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  bool is_refused = false, is_different = false, is_lost = false, is_first = true;
  auto next = plays.begin();
  for (AskedDocument& each : asked) {
    const SideBySide* const both = each.refusal.empty() ? &*next++ : nullptr;
    if (both != nullptr && !both->plays[0].skipped.empty() && !both->plays[1].skipped.empty())
      each.refusal = fmt::format("{} cannot be played: {}", each.document.file.string(), both->plays[0].skipped);
    if (!each.refusal.empty()) {
      is_refused = true;
      terminal.finish();
      print_error(each.refusal);
      json.push_back(element_of(each.document, each.refusal, nullptr));
      continue;
    }
    is_different = is_different || !both->comparison.alike();
    is_lost = is_lost || (both->comparison.alike() && was_lost(both->plays[0]));
    if (!options.json)
      terminal.print(reports::fitted((std::exchange(is_first, false) ? "" : "\n") + title(each.document, contenders) +
                                     "\n" + to_text(*both)));
    else if (asked.size() > 1) json.push_back(element_of(each.document, "", to_json(*both, contenders)));
    else print_output(base::dump_document(to_json(*both, contenders)) + "\n");
  }
  if (options.json && asked.size() > 1) print_output(base::dump_document(json) + "\n");
  require_printed(terminal.finish());
  if (is_refused) return usage;
  if (is_different) return case_failed;
  return is_lost ? crashed_or_hung : all_passed;
}

}  // namespace shardproof::launcher

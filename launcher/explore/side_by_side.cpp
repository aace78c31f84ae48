#include "launcher/explore/side_by_side.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/json_text.hpp"
#include "harness/base/rank_list.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/warm_process.hpp"
#include "launcher/run/claimed_directory.hpp"
#include "launcher/terminal/standard_streams.hpp"
#include "reports/export/terminal.hpp"
#include "reports/export/traceback.hpp"
#include "reports/play/play.hpp"

namespace shardproof::launcher {
namespace {

using Json = nlohmann::ordered_json;

/// Each warning once, with the ranks that it is for.
std::vector<std::pair<std::string, std::vector<int>>> warnings(const reports::SubjectPlay& play) {
  std::vector<std::pair<std::string, std::vector<int>>> all;
  for (const PlayResult& rank : play.ranks) {
    for (const std::string& warning : rank.warnings) {
      const auto known =
          std::ranges::find(all, warning, [](const auto& entry) -> const std::string& { return entry.first; });
      if (known == all.end()) all.emplace_back(warning, std::vector{rank.rank});
      else if (known->second.back() != rank.rank) known->second.push_back(rank.rank);
    }
  }
  return all;
}

std::string refusals(const SideBySide& both) {
  std::string text;
  for (const DocumentPlay& played : both.plays) {
    text += fmt::format("{}: {}\n{}", reports::printable(played.play.subject), to_string(played.play.verdict),
                        reports::indented(reports::printable(reports::shortened_tracebacks(played.play.why)), "  "));
  }
  return text;
}

std::string title(const PlayOptions& options, const std::array<Contender, 2>& contenders) {
  const int ranks = options.plan.ranks.front();
  return fmt::format("{}: {} rank{}, {}", options.scenario.string(), ranks, ranks == 1 ? "" : "s",
                     names_text(contenders));
}

bool was_lost(const DocumentPlay& played) {
  return played.play.verdict == reports::Verdict::crashed || played.play.verdict == reports::Verdict::hung;
}

}  // namespace

std::string names_text(const std::array<Contender, 2>& contenders) {
  const auto name = [](const Contender& contender) {
    const std::string& own = contender.subject.name;
    const bool is_named_so =
        contender.asked == own || contender.asked == fmt::format("{}+{}", own, contender.plan.fault);
    return fmt::format("{} ({}{})", contender.asked, is_named_so ? "" : own + " ", contender.subject.version);
  };
  return fmt::format("{} beside {}", name(contenders[0]), name(contenders[1]));
}

std::filesystem::path place_of(const std::array<Contender, 2>& contenders, std::size_t which,
                               const std::filesystem::path& place) {
  const Contender& contender = contenders.at(which);
  // Use the subject's own name, which is short. The user may have named it by a long path.
  std::string name = fmt::format("{}-{}{}{}", which + 1, contender.subject.name,
                                 contender.plan.fault.empty() ? "" : "+", contender.plan.fault);
  std::ranges::replace(name, '/', '.');
  return place / name;
}

void prepare(std::array<Contender, 2>& contenders, const std::filesystem::path& place, SignalWatch& signals) {
  std::vector<pid_t> started;
  for (std::size_t which = 0; which < contenders.size(); ++which) {
    Worker& worker = contenders[which].worker;
    worker.started = started;
    std::filesystem::path log = place_of(contenders, which, place);
    warm_up(worker, contenders[which].plan, log += ".warm.log", signals);
    started = worker.started;
  }
  for (Contender& contender : contenders) contender.worker.started = started;
}

std::vector<SideBySide> play_side_by_side(const std::array<Contender, 2>& contenders,
                                          std::span<const Document> documents, std::uint64_t ulps,
                                          const std::filesystem::path& place, const std::vector<std::string>& argv,
                                          SignalWatch& signals) {
  std::vector<SideBySide> all(documents.size());
  for (std::size_t which = 0; which < contenders.size(); ++which) {
    const ClaimedDirectory claimed({.directory = place_of(contenders, which, place)});
    const RunDirectory directory = claimed.run();
    std::vector<DocumentPlay> plays = play_documents(contenders[which], documents, directory, argv, signals);
    for (std::size_t i = 0; i < plays.size(); ++i) all[i].plays[which] = std::move(plays[i]);
  }
  for (SideBySide& both : all) both.comparison = reports::compare(both.plays[0].play, both.plays[1].play, ulps);
  return all;
}

std::string to_text(const SideBySide& both) {
  std::string text = reports::to_text(both.comparison);
  if (!both.comparison.both_played && both.comparison.alike()) text += refusals(both);
  for (const DocumentPlay& played : both.plays) {
    for (const auto& [warning, ranks] : warnings(played.play))
      text += reports::printable(fmt::format("{} warns {}: {}\n", played.play.subject, rank_list(ranks), warning));
  }
  return text;
}

Json to_json(const SideBySide& both, const std::array<Contender, 2>& contenders) {
  Json json = reports::to_json(both.comparison);
  json["played"] = Json::array();
  for (std::size_t which = 0; which < contenders.size(); ++which) {
    const Contender& contender = contenders[which];
    const reports::SubjectPlay& play = both.plays[which].play;
    Json& written = json["played"].emplace_back(Json{{"subject", contender.subject.name},
                                                     {"version", contender.subject.version},
                                                     {"fault", contender.plan.fault},
                                                     {"verdict", to_string(play.verdict)},
                                                     {"why", play.why},
                                                     {"result", nullptr}});
    if (!play.ranks.empty()) written["result"] = reports::to_json(play.ranks, both.plays[which].world);
  }
  return json;
}

int play_on_two(const PlayOptions& options, const std::vector<std::string>& argv) {
  if (!options.trace.empty())
    throw CommandError(usage, "--trace with two subjects: a trace is of one; play it on each alone");
  if (options.show_plan || !options.plan_dot.empty())
    throw CommandError(
        usage,
        fmt::format("{} with two subjects: --show-plan works with one subject: play the scenario on each subject alone",
                    options.show_plan ? "--show-plan" : "--plan-dot"));
  require_kept(options.scenario, options.out);
  SignalWatch signals;
  std::array<Contender, 2> contenders = find_contenders(options.plan, options.worker, signals);
  for (const Contender& contender : contenders)
    check_scenario(contender.worker, options.scenario, options.plan.ranks.front(), signals);

  const RendezvousDirectory scratch = RendezvousDirectory::make(1);
  const bool keeps_runs = !options.out.directory.empty();
  const ClaimedDirectory claimed(keeps_runs ? options.out : OutputOptions{.directory = scratch.path() / "runs"});
  const std::filesystem::path& place = claimed.path();
  prepare(contenders, place, signals);
  const Document document{.file = options.scenario, .ranks = options.plan.ranks.front()};
  const SideBySide both =
      std::move(play_side_by_side(contenders, {&document, 1}, options.ulps, place, argv, signals).front());
  if (!both.plays[0].skipped.empty() && !both.plays[1].skipped.empty())
    throw CommandError(usage, fmt::format("{} cannot be played: {}", options.scenario.string(), both.plays[0].skipped));

  if (options.json) {
    say(dump_document(to_json(both, contenders)) + "\n");
  } else {
    Terminal terminal(stdout, options.terminal);
    terminal.print(title(options, contenders) + "\n" + to_text(both));
    require_said(terminal.finish());
  }
  if (!both.comparison.alike()) return case_failed;
  return was_lost(both.plays[0]) ? crashed_or_hung : all_passed;
}

}  // namespace shardproof::launcher

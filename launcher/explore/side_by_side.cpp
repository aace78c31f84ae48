#include "launcher/explore/side_by_side.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "harness/base/rank_list.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/run/preparation.hpp"
#include "reports/export/terminal.hpp"
#include "reports/export/traceback.hpp"
#include "reports/play/play.hpp"

namespace shardproof::launcher {
namespace {

using Json = nlohmann::ordered_json;

/// Each warning once, with the ranks that it is for.
std::vector<std::pair<std::string, std::vector<int>>> warnings(const reports::SubjectPlay& play) {
  std::vector<std::pair<std::string, std::vector<int>>> all;
  for (const protocol::PlayResult& rank : play.ranks) {
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

}  // namespace

std::string names_text(const std::array<Contender, 2>& contenders) {
  const auto name = [](const Contender& contender) {
    const std::string& own = contender.subject.name;
    const bool is_named_so =
        contender.requested == own || contender.requested == fmt::format("{}+{}", own, contender.plan.fault);
    return fmt::format("{} ({}{})", contender.requested, is_named_so ? "" : own + " ", contender.subject.version);
  };
  return fmt::format("{} against {}", name(contenders[0]), name(contenders[1]));
}

std::filesystem::path folder_of(const std::array<Contender, 2>& contenders, std::size_t which,
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
    std::filesystem::path log = folder_of(contenders, which, place);
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
    const ClaimedDirectory claimed({.directory = folder_of(contenders, which, place)});
    const protocol::RunDirectory directory = claimed.run();
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
      text +=
          reports::printable(fmt::format("{} warns {}: {}\n", played.play.subject, base::rank_list(ranks), warning));
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

}  // namespace shardproof::launcher

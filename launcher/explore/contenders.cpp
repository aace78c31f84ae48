#include "launcher/explore/contenders.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "harness/base/input_file.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/protocol/play_result.hpp"
#include "harness/protocol/subject_name.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/machine.hpp"
#include "launcher/run/preparation.hpp"
#include "reports/export/failure_text.hpp"

namespace shardproof::launcher {
namespace {

bool has_comma(std::string_view text) { return text.find(',') != std::string_view::npos; }

bool is_file(std::string_view subject) {
  std::error_code unknown;
  return protocol::is_shared_object(subject) && std::filesystem::is_regular_file(subject, unknown);
}

/// One file can have two paths.
bool is_one_library(const std::filesystem::path& one, const std::filesystem::path& other) {
  std::error_code unknown;
  return one == other || (!one.empty() && !other.empty() && std::filesystem::equivalent(one, other, unknown));
}

/// Rejects an engine that is compared with itself by mistake: it would show no difference. A user who wants that names
/// it twice in the same words.
void refuse_one_twice(const std::string& requested, const Contender& one, const Contender& other) {
  const bool is_one = one.worker.program == other.worker.program && one.subject.name == other.subject.name &&
                      is_one_library(one.plan.subject_library, other.plan.subject_library);
  if (!is_one || one.requested == other.requested || one.plan.fault != other.plan.fault) return;
  throw CommandError(
      usage, fmt::format("--subject {0}: {1} and {2} are the same engine: name another engine, or write {1},{1} to see "
                         "whether two runs of it differ",
                         requested, one.requested, other.requested));
}

/// A world that plays documents, without them. Throws CommandError (usage) if the world is impossible.
protocol::WorldPlan playing_world(const Contender& contender, int ranks) {
  protocol::WorldPlan world = world_of(contender.worker.listing, contender.plan, ranks);
  if (!world.skipped.empty()) throw CommandError(usage, fmt::format("--ranks {}: {}", ranks, world.skipped));
  return world;
}

}  // namespace

void require_playable(const Contender& contender, const Document& document) {
  playing_world(contender, document.ranks);
}

PlayPlan plan_of(const Contender& contender, std::span<const Document> documents) {
  PlayPlan result;
  std::map<int, std::vector<std::filesystem::path>> by_size;
  std::vector<std::size_t> places;
  for (const Document& document : documents) {
    auto& files = by_size[document.ranks];
    places.push_back(files.size());
    files.push_back(std::filesystem::absolute(document.file));
  }
  for (auto& [size, files] : by_size) {
    protocol::WorldPlan& world = result.plan.worlds.emplace_back(playing_world(contender, size));
    world.planned = static_cast<int>(result.plan.worlds.size()) - 1;
    world.scenarios = std::move(files);
    world.cases = protocol::play_case_ids(world);
  }
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto world = std::ranges::find(result.plan.worlds, documents[i].ranks, &protocol::WorldPlan::size);
    result.ids.push_back(world->cases[places[i]]);
  }
  result.plan.selected = documents.size();
  result.plan.supply = contender.plan.supply;
  return result;
}

std::string why_bad(const reports::CaseResult& result, const reports::Report& report) {
  if (!reports::is_bad(result.verdict)) return {};
  constexpr std::string_view margin = "  ";
  std::istringstream lines(reports::cause_text(result, report, {}));
  std::string text;
  for (std::string line; std::getline(lines, line);)
    text += fmt::format("{}{}", text.empty() ? "" : "\n",
                        std::string_view(line).substr(line.starts_with(margin) ? margin.size() : 0));
  return text;
}

bool names_two(std::string_view requested) { return has_comma(requested) && !is_file(requested); }

std::array<NamedSubject, 2> two_subjects(std::string_view requested) {
  const auto is_one = [](const NamedSubject& one) {
    return !one.subject.empty() && (!has_comma(one.subject) || is_file(one.subject));
  };
  std::vector<std::array<NamedSubject, 2>> found;
  if (is_file(requested))
    throw CommandError(usage,
                       fmt::format("--subject {}: this file is one subject: name two subjects as A,B", requested));
  for (std::size_t comma = requested.find(','); comma != std::string_view::npos;
       comma = requested.find(',', comma + 1)) {
    std::array<NamedSubject, 2> two{named_subject(requested.substr(0, comma)),
                                    named_subject(requested.substr(comma + 1))};
    if (std::ranges::all_of(two, is_one)) found.push_back(std::move(two));
  }
  if (found.size() == 1) return std::move(found.front());
  throw CommandError(usage, fmt::format("--subject {}: name two subjects as A,B (with a fault: A+FAULT){}",
                                        requested.empty() ? "''" : requested,
                                        found.empty() ? "" : "; more than one comma can separate them"));
}

Contender find_contender(const NamedSubject& named, const PlanOptions& settings, const std::filesystem::path& worker,
                         SignalWatch& signals) {
  Contender found{.requested = named.subject + (named.fault.empty() ? "" : "+" + named.fault),
                  .worker = {},
                  .plan = settings,
                  .subject = {}};
  found.plan.subject = named.subject;
  found.plan.fault = named.fault;
  found.worker = find_subject(found.plan, worker, signals);
  const std::vector<protocol::SubjectInfo>& subjects = found.worker.listing.subjects;
  if (subjects.empty()) throw CommandError(usage, "the worker has no subject that can play a scenario");
  found.subject = *std::ranges::find(subjects, found.plan.subject, &protocol::SubjectInfo::name);
  found.plan.cores = usable_cores();
  world_of(found.worker.listing, found.plan, 1);  // throws if a setting is wrong
  find_gpus(found.worker, found.plan, signals);
  return found;
}

std::array<Contender, 2> find_contenders(const PlanOptions& settings, const std::filesystem::path& worker,
                                         SignalWatch& signals) {
  if (!settings.fault.empty())
    throw CommandError(
        usage,
        fmt::format("--fault {0}: with two subjects, name the broken one: write A+{0} in --subject", settings.fault));
  const auto [first, second] = two_subjects(settings.subject);
  std::array<Contender, 2> both{find_contender(first, settings, worker, signals),
                                find_contender(second, settings, worker, signals)};
  refuse_one_twice(settings.subject, both[0], both[1]);
  return both;
}

std::vector<protocol::PlayResult> play_results(const protocol::WorldDirectory& directory, const std::string& id,
                                               int ranks) {
  std::vector<protocol::PlayResult> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto file = directory.play_result(id, rank);
    try {
      all.push_back(base::parse_json(base::read_evidence(file, 2)).get<protocol::PlayResult>());
    } catch (const base::UnreadableFile&) {
      return {};  // the report says why
    } catch (const std::invalid_argument&) {
      return {};
    } catch (const nlohmann::json::exception&) {
      return {};
    }
  }
  return all;
}

std::vector<DocumentPlay> play_documents(const Contender& contender, std::span<const Document> documents,
                                         const protocol::RunDirectory& directory, const std::vector<std::string>& argv,
                                         SignalWatch& signals) {
  PlayPlan play = plan_of(contender, documents);
  reports::RunHead head = make_head(contender.worker, play.plan, contender.plan, argv);
  Terminal silent(stderr, {.quiet = true});
  // Documents are independent: hangs of some documents say nothing about the others.
  const RetryOptions retry{.retries = 0, .max_hangs = std::numeric_limits<int>::max()};
  const RunResult run =
      run_plan(contender.worker, std::move(play.plan), directory, std::move(head), signals, silent, retry);
  if (run.interrupted_by != 0) throw CommandError(static_cast<ExitCode>(128 + run.interrupted_by), "interrupted");
  if (!run.output_error.empty()) throw CommandError(usage, run.output_error);
  if (!run.infrastructure_error.empty())
    throw CommandError(infrastructure, fmt::format("{}: {}", contender.requested, run.infrastructure_error));

  std::vector<DocumentPlay> plays;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const auto result = std::ranges::find(run.report.cases, play.ids[i],
                                          [](const auto& one) -> const std::string& { return one.info.id; });
    if (result == run.report.cases.end())
      throw CommandError(infrastructure,
                         fmt::format("{}: no rank reports a result of {}", contender.requested, play.ids[i]));
    DocumentPlay& played = plays.emplace_back();
    played.world = run.report.worlds.at(static_cast<std::size_t>(result->world));
    played.play = {.subject = contender.requested,
                   .verdict = result->verdict,
                   .why = why_bad(*result, run.report),
                   .ranks = play_results(directory.world(played.world.number), result->info.id, documents[i].ranks)};
    if (result->verdict == reports::Verdict::skipped) played.skipped = reports::skip_reason(*result);
  }
  return plays;
}

}  // namespace shardproof::launcher

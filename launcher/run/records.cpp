#include "launcher/run/records.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <sstream>
#include <stdexcept>

#include "harness/base/input_file.hpp"
#include "harness/base/json_fields.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"
#include "harness/control/control_plane.hpp"
#include "harness/protocol/rank_end.hpp"
#include "launcher/files/output.hpp"
#include "reports/explain/nccl_calls.hpp"

namespace shardproof::launcher {

using base::parse_json;
using protocol::CaseInfo;
using protocol::Ending;
using protocol::WorldDirectory;
using protocol::WorldPlan;

namespace {

/// The elements of a file that has an array.
template <class Element>
std::vector<Element> read_array(const std::filesystem::path& file) {
  const nlohmann::ordered_json json = parse_json(base::read_evidence(file));
  if (!json.is_array()) throw std::invalid_argument(fmt::format("expected an array, found {}", base::shown(json)));
  return json.get<std::vector<Element>>();
}

/// The whole of `text` as a number that is not negative.
std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || rest != text.data() + text.size() || number < 0) return std::nullopt;
  return number;
}

}  // namespace

CaseInfo parse_case_id(const std::string& id, int world_size) {
  CaseInfo info;
  info.id = id;
  info.suite = id.substr(0, id.find('/'));
  info.world_size = world_size;
  const std::size_t open = id.rfind('[');
  if (open == std::string::npos || id.back() != ']') return info;
  std::istringstream params(id.substr(open + 1, id.size() - open - 2));
  for (std::string param; std::getline(params, param, ',');) {
    if (const std::size_t equals = param.find('='); equals != std::string::npos)
      info.params[param.substr(0, equals)] = param.substr(equals + 1);
  }
  if (const auto size = info.params.find("W"); size != info.params.end())
    info.world_size = whole_number(size->second).value_or(world_size);
  return info;
}

CaseIndex::CaseIndex(const std::vector<CaseInfo>& cases) {
  for (const CaseInfo& info : cases) {
    cases_.emplace(info.id, info);
    if (!info.drawn_by.empty()) that_draw_.push_back(info);
  }
}

CaseInfo CaseIndex::find_one(const std::string& id) const {
  if (const auto known = cases_.find(id); known != cases_.end()) return known->second;
  for (const CaseInfo& like : that_draw_) {
    if (const auto number = protocol::drawn_number(like, id)) return protocol::drawn_case(like, *number);
  }
  return parse_case_id(id, 0);
}

std::vector<CaseInfo> CaseIndex::find(const std::vector<std::string>& ids) const {
  std::vector<CaseInfo> result;
  result.reserve(ids.size());
  for (const std::string& id : ids) result.push_back(find_one(id));
  return result;
}

std::optional<int> world_number(const WorldDirectory& directory) {
  return whole_number(directory.root.filename().string());
}

std::filesystem::path listing_file(const protocol::RunDirectory& run) { return run.root / "listing.json"; }

bool has_begun(const WorldDirectory& directory) {
  std::error_code unknown;
  return base::is_there(directory.endings()) || (std::filesystem::is_directory(directory.ranks(), unknown) &&
                                                 !std::filesystem::is_empty(directory.ranks(), unknown));
}

namespace {

/// No command could read a report of some plans. Throws for a case of another number of ranks, and for a case that is
/// twice in the plan of a further attempt.
void require_valid_cases(const WorldPlan& plan) {
  if (plan.attempt > 0 && std::set(plan.cases.begin(), plan.cases.end()).size() < plan.cases.size())
    throw std::runtime_error("a case is twice in the plan of a further attempt");
  for (const std::string& id : plan.cases) {
    if (parse_case_id(id, 0).world_size != plan.size)
      throw std::runtime_error(fmt::format("{} is no case of a world of {} ranks", base::dump_line(id), plan.size));
  }
}

}  // namespace

WorldPlan read_plan(const WorldDirectory& directory) {
  try {
    WorldPlan plan = parse_json(base::read_evidence(directory.plan())).get<WorldPlan>();
    if (plan.size > control::ControlPlane::max_world_size)
      throw std::runtime_error(
          fmt::format("{} ranks, the limit is {}", plan.size, control::ControlPlane::max_world_size));
    require_valid_cases(plan);
    return plan;
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("the plan of {}, {}: {}", directory.root.string(),
                                         directory.plan().filename().string(), error.what()));
  }
}

std::vector<WorldPlan> read_planned_worlds(const protocol::RunDirectory& run) {
  if (!base::is_there(run.plan())) return {};
  try {
    std::vector<WorldPlan> plans = read_array<WorldPlan>(run.plan());
    std::ranges::for_each(plans, require_valid_cases);
    return plans;
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("{}: {}", run.plan().string(), error.what()));
  }
}

namespace {

WorldEvidence with_unknown_endings(int world_size) {
  WorldEvidence evidence;
  for (int rank = 0; rank < world_size; ++rank) evidence.endings.push_back({.rank = rank});
  return evidence;
}

}  // namespace

WorldEvidence without_endings(int world_size, std::string defect) {
  WorldEvidence evidence = with_unknown_endings(world_size);
  evidence.defects.push_back(std::move(defect));
  return evidence;
}

namespace {

/// Takes the recorded endings. Each rank has to have one.
void take_endings(WorldEvidence& evidence, std::vector<Ending> recorded, const std::filesystem::path& file) {
  std::vector<bool> seen(evidence.endings.size());
  const auto defect = [&](int rank, std::string_view what) {
    evidence.defects.push_back(
        fmt::format("{} has {} of rank {} in a world of {}", file.string(), what, rank, evidence.endings.size()));
  };
  for (Ending& ending : recorded) {
    const auto rank = static_cast<std::size_t>(ending.rank);
    if (ending.rank < 0 || rank >= seen.size()) {
      defect(ending.rank, "an ending");
    } else if (seen[rank]) {
      defect(ending.rank, "a second ending");
    } else {
      seen[rank] = true;
      evidence.endings[rank] = std::move(ending);
    }
  }
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (!seen[rank]) defect(static_cast<int>(rank), "no ending");
  }
}

/// The ends that the guards of ranks saw, for a world whose launcher recorded none. Unknown if no rank died by itself:
/// then the end of the launcher ended the ranks.
void take_rank_ends(WorldEvidence& evidence, const WorldDirectory& directory) {
  std::vector<Ending> endings = evidence.endings;
  bool one_died = false;
  for (Ending& ending : endings) {
    const std::filesystem::path file = directory.rank_end(ending.rank);
    ending.how = Ending::How::stopped;
    ending.text = "was stopped, because its launcher had ended";
    if (!base::is_there(file)) continue;
    protocol::RankEnd end;
    try {
      end = parse_json(base::read_evidence(file, 2)).get<protocol::RankEnd>();
    } catch (const std::exception& error) {
      evidence.defects.push_back(fmt::format("{} cannot be read: {}", file.string(), error.what()));
      continue;
    }
    const bool is_released = !end.signalled && end.code == protocol::rank_released;
    if (end.rank != ending.rank || end.asked_by != protocol::RankEnd::AskedBy::none || is_released) continue;
    ending.how = end.signalled ? Ending::How::signalled : Ending::How::exited;
    ending.code = end.code;
    ending.lacked_memory = end.signalled && end.code == SIGKILL && end.lacked_memory;
    ending.last_words = end.last_words;
    ending.text = fmt::format("rank {} ended with {}, as its guard saw", end.rank,
                              end.signalled ? protocol::signal_text(ending) : fmt::format("exit code {}", end.code));
    one_died = one_died || end.signalled || end.code != protocol::rank_left;
  }
  if (one_died) evidence.endings = std::move(endings);
}

}  // namespace

WorldEvidence read_evidence(const WorldDirectory& directory, int world_size) {
  WorldEvidence evidence = with_unknown_endings(world_size);
  try {
    if (base::is_there(directory.endings()))
      take_endings(evidence, read_array<Ending>(directory.endings()), directory.endings());
    else take_rank_ends(evidence, directory);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format("what is left of {}, {}: {}", directory.root.string(),
                                         directory.endings().filename().string(), error.what()));
  }
  try {
    if (base::is_there(directory.flight()))
      evidence.flight = parse_json(base::read_evidence(directory.flight(), 1)).get<protocol::FlightSnapshot>();
  } catch (const std::exception& error) {
    // The record only explains why ranks ended. Their endings are known without it.
    evidence.defects.push_back(
        fmt::format("its flight record {} cannot be read: {}", directory.flight().string(), error.what()));
  }
  return evidence;
}

std::optional<NcclRecords> read_nccl_records(const WorldDirectory& directory) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(directory.nccl(), ignored)) return std::nullopt;
  NcclRecords found;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory.nccl(), ignored))
    files.push_back(entry.path());
  std::ranges::sort(files);
  for (const std::filesystem::path& file : files) {
    const auto damage = [&](const std::exception& error) {
      found.defects.emplace_back(error.what());
      found.damaged.push_back(file);
    };
    try {
      base::open_evidence_file(file, 1);
      found.records.push_back(protocol::read_tap(file));
    } catch (const base::UnreadableFile& error) {
      damage(error);
    } catch (const protocol::RecordError& error) {
      damage(error);
    }
  }
  std::ranges::stable_sort(found.records, {}, [](const protocol::TapRecord& record) { return record.process.rank; });
  return found;
}

std::vector<std::string> describe_nccl_calls(const NcclRecords& records, const WorldDirectory& directory,
                                             int world_size) {
  std::vector<std::string> sentences = records.defects;
  std::vector<int> damaged;
  for (int rank = 0; rank < world_size; ++rank) {
    if (std::ranges::find(records.damaged, directory.nccl_record(rank)) != records.damaged.end())
      damaged.push_back(rank);
  }
  std::ranges::move(reports::nccl_sentences(records.records, world_size, damaged), std::back_inserter(sentences));
  return sentences;
}

void write_evidence(const WorldDirectory& directory, const WorldEvidence& evidence) {
  write_own_file(directory.endings(), base::dump_line(evidence.endings) + "\n", 2);
  if (evidence.flight) write_own_file(directory.flight(), base::dump_line(*evidence.flight) + "\n", 3);
}

void add_world(reports::Merger& merger, const WorldPlan& plan, const CaseIndex& index, const WorldEvidence& evidence,
               const WorldDirectory& directory) {
  merger.open_world(plan, index.find(plan.cases), evidence.endings, world_number(directory));
  if (evidence.flight) merger.explain(*evidence.flight);
  for (const std::string& defect : evidence.defects) merger.add_defect(defect);
  if (const auto records = read_nccl_records(directory))
    merger.add_nccl_calls(describe_nccl_calls(*records, directory, plan.size));
  for (int rank = 0; rank < plan.size; ++rank) {
    merger.add(reports::read_rank_stream(directory.rank_stream(rank)));
  }
}

void add_not_started(reports::Merger& merger, const WorldPlan& plan, const CaseIndex& index, const std::string& why) {
  std::vector<Ending> endings;
  for (int rank = 0; rank < plan.size; ++rank) {
    endings.push_back({.rank = rank, .how = Ending::How::not_started, .code = 0, .position = -1, .text = why});
  }
  merger.open_world(plan, index.find(plan.cases), std::move(endings));
}

void add_skipped(reports::Merger& merger, const WorldPlan& plan, const CaseIndex& index) {
  merger.skip_world(plan, index.find(plan.cases));
}

void add_left_out(reports::Merger& merger, const WorldPlan& plan, const CaseIndex& index) {
  merger.leave_out_world(plan, index.find(plan.cases));
}

std::map<int, WorldDirectory> find_worlds(const protocol::RunDirectory& run) {
  std::map<int, WorldDirectory> worlds;
  if (!std::filesystem::is_directory(std::filesystem::symlink_status(run.worlds()))) return worlds;
  for (const auto& entry : std::filesystem::directory_iterator(run.worlds())) {
    if (const auto number = world_number({entry.path()}); number && !entry.is_symlink())
      worlds.emplace(*number, WorldDirectory{entry.path()});
  }
  return worlds;
}

}  // namespace shardproof::launcher

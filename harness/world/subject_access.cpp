// The functions of World and Rank that use the subject and its device: their claims, and playing scenarios.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "harness/base/json_text.hpp"
#include "harness/device/cuda/cuda_world.hpp"
#include "harness/device/cuda/vendor_module.hpp"
#include "harness/device/sim/sim_platform.hpp"
#include "harness/fabric/shm/region.hpp"
#include "harness/player/player.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/trace_json.hpp"
#include "harness/scenario/scenario_json.hpp"
#include "harness/subject/subject.hpp"
#include "harness/trace/memory.hpp"
#include "harness/world/world.hpp"

namespace shardproof {

std::string World::subject_identity() const {
  const Subject* subject = membership_.subject.get();
  return subject != nullptr ? fmt::format("{} {}", subject->name(), subject->version()) : "none";
}

namespace {

// The text shows a misspelt kind.
std::string claimed_kinds(const Subject& subject) {
  const Claims claims = subject.claims();
  std::string names;
  for (const Claims::Kind& kind : claims.kinds()) names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  return names.empty() ? "no engine kind" : names;
}

}  // namespace

std::string World::missing(const CaseInfo& info) const {
  if (lacks_threads(info)) return "its ranks are to be threads of one process, and here they are processes";
  if (info.engine.empty() && info.needs.empty()) return {};
  const Subject* subject = membership_.subject.get();
  if (subject == nullptr)
    return fmt::format("the program has no subject that could claim {}", Claims().lacking(info.engine, info.needs));
  std::vector<std::string> needs = info.needs;
  if (plan_.fabric == thread_fabric) needs.emplace_back(Feature::thread_ranks.name());
  const std::string lacking = subject->claims().lacking(info.engine, needs);
  if (lacking.empty()) return {};
  std::string reason = fmt::format("subject {} does not claim {}", subject->name(), lacking);
  if (!info.engine.empty() && !subject->claims().plays(info.engine)) reason += "; it claims " + claimed_kinds(*subject);
  return reason;
}

std::string Rank::lacking(std::span<const Feature> needs) const {
  CaseInfo needing = *world_->notes().info;
  for (const Feature feature : needs) needing.needs.emplace_back(feature.name());
  return world_->missing(needing);
}

namespace {

void write_document(const nlohmann::ordered_json& json, const std::filesystem::path& file) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::trunc);
  out << dump_line(json) << '\n';
  out.close();
  if (!out) throw std::system_error(errno, std::generic_category(), fmt::format("write {}", file.string()));
}

}  // namespace

void World::write_trace(const Trace& trace) {
  // Later plays of one case get their own documents: their streams and clocks begin anew.
  const std::string name = case_file_name(notes_.info->id, static_cast<int>(notes_.played.size()));
  write_document(trace, WorldDirectory{plan_.directory}.traces() / fmt::format("{}.rank-{}.json", name, rank_));
}

void World::keep_scenarios() {
  if (!plan_.scenarios.empty()) return;  // the user has the document already
  const WorldDirectory directory{plan_.directory};
  for (std::size_t i = 0; i < notes_.played.size(); ++i) {
    if (i > 0 && notes_.played[i] == notes_.played[i - 1]) continue;  // played again
    const auto file = directory.scenario(notes_.info->id, static_cast<int>(i) + 1);
    const auto mine = std::filesystem::path(file) += fmt::format(".rank-{}", rank_);
    try {
      write_document(notes_.played[i], mine);
      std::filesystem::rename(mine, file);  // every rank writes the same document: the last one stays
    } catch (const std::system_error&) {
      std::error_code ignored;  // a full disk, for example, is not a second failure of the case
      std::filesystem::remove(mine, ignored);
    }
  }
}

// Throws the error that ends the running case for every rank. Waits outside the fabric call it. A disagreement is every
// rank's own error.
void World::check_case() {
  try {
    if (const auto abort = control_.aborted(epoch_); abort && abort->reason == AbortReason::disagreed)
      throw Mismatch(abort->text);
    control_.check(epoch_);
  } catch (...) {
    notes_.calls.released = true;
    throw;
  }
}

std::unique_ptr<Platforms> World::make_platforms() {
  if (plan_.device == sim_device) return std::make_unique<SimPlatforms>(group_, rank_);
  return std::make_unique<cuda::CudaWorld>(
      cuda::load_vendor(plan_.backend),
      cuda::GpuContext{.rank = rank_,
                       .check = [this] { check_case(); },
                       .give_up_at = [this](Deadline now) { return give_up_at(now); },
                       .flight = &control_.flight(rank_),
                       .epoch = [this] { return epoch_; },
                       .keeps_records = plan_.times == cupti_times},
      group_, world_shared_.memory ? world_shared_.memory : shm::make_file_memory(plan_.rendezvous, rank_));
}

Reply World::take_teardown_failure() {
  return membership_.subject ? membership_.subject->take_teardown_failure() : Reply{};
}

std::string World::device_complaint() { return platforms_->complaint(); }

std::string World::defect() const { return platforms_->defect(); }

std::unique_ptr<Platform> Rank::platform(const CostModel& costs) {
  if (const std::string why = world_->platforms_->objection(costs); !why.empty()) skip(why);
  return world_->platforms_->make(costs);
}

scenario::Run World::play(const scenario::Scenario& scenario, Platform& platform) {
  scenario::Run run = scenario::play(scenario, *membership_.subject, platform, rank_);
  notes_.left_alive += run.left_alive();
  if (run.left_alive() > 0) std::ranges::move(trace::left_alive(run.trace()), std::back_inserter(notes_.left_buffers));
  if (plan_.trace) write_trace(run.recording().clocked());
  return run;
}

namespace {

// Without this check, the case would pass on another engine than its id says. An unknown kind passes here, because the
// engine itself must refuse it.
void require_kind_of_case(const CaseInfo& info, std::string_view kind) {
  if (info.engine.empty() || kind == info.engine || scenario::find_engine_kind(kind) == nullptr) return;
  throw std::logic_error(fmt::format(
      "Rank::play: case {0} is for the engine kind {1}, but its plan has a section for {2}: write the plan's "
      "section for {1}, or name the kind {2} in the case (on_engines, SUITE_ENGINE)",
      info.id, info.engine, kind));
}

}  // namespace

std::unique_ptr<Platform> Rank::stage(const scenario::Scenario& scenario) {
  if (!world_->membership_.subject)
    throw std::logic_error("Rank::play: this program has no subject to play the scenario on");
  require_kind_of_case(*world_->notes().info, scenario.plan.engine.kind());
  world_->notes().played.push_back(scenario);
  return platform(scenario.costs);
}

scenario::Run Rank::play(const scenario::Scenario& scenario) { return world_->play(scenario, *stage(scenario)); }

scenario::HeldRun Rank::play(const scenario::Scenario& scenario, const std::vector<scenario::Hold>& holds) {
  // First play once without a gate. Work that is loaded or set up at its first use would otherwise wait for the held
  // piece, and block the piece that should pass.
  scenario::HeldRun played{.run = play(scenario), .passages = {}};
  std::vector<std::int64_t> free;
  for (const scenario::Hold& hold : holds) {
    const bool is_free = trace::can_pass(played.run.trace(), hold.held, hold.passes, played.run.resource());
    played.passages.push_back({.is_free = is_free, .has_passed = {}});
    free.push_back(is_free ? 1 : 0);
  }
  // Skip a hold whose second piece is ordered after the held piece: it would wait until the gate gives up. All ranks go
  // on, or no rank does.
  const Tensor all = world().all_reduce(Tensor::of<std::int64_t>({std::ssize(free)}, free), ReduceOp::min, "may pass");
  for (std::size_t i = 0; i < holds.size(); ++i) {
    if (all.values<std::int64_t>()[i] == 0) continue;
    const std::unique_ptr<Platform> platform = stage(scenario);
    scenario::HeldPlatform held(*platform, holds[i]);
    if (!held.has_gate()) break;
    world_->play(scenario, held);
    played.passages[i].has_passed = held.has_passed();
  }
  return played;
}

}  // namespace shardproof

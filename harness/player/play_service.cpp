#include "harness/player/play_service.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "harness/base/json_text.hpp"
#include "harness/device/cuda/cuda_world.hpp"
#include "harness/device/cuda/vendor_module.hpp"
#include "harness/device/sim/sim_platform.hpp"
#include "harness/fabric/boards.hpp"
#include "harness/fabric/messages/message_boards.hpp"
#include "harness/fabric/shm/region.hpp"
#include "harness/fabric/tcp/tcp_transport.hpp"
#include "harness/player/play.hpp"
#include "harness/player/player.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/trace_json.hpp"
#include "harness/rendezvous/file_store.hpp"
#include "harness/scenario/scenario_json.hpp"
#include "harness/trace/memory.hpp"
#include "harness/world/running_threads.hpp"
#include "harness/world/world.hpp"

namespace shardproof::player {

namespace {

// The text shows a misspelt kind.
std::string claimed_kinds(const Subject& subject) {
  const Claims claims = subject.claims();
  std::string names;
  for (const Claims::Kind& kind : claims.kinds()) names += fmt::format("{}{}", names.empty() ? "" : ", ", kind.name);
  return names.empty() ? "no engine kind" : names;
}

void write_document(const nlohmann::ordered_json& json, const std::filesystem::path& file) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream out(file, std::ios::trunc);
  out << base::dump_line(json) << '\n';
  out.close();
  if (!out) throw std::system_error(errno, std::generic_category(), fmt::format("write {}", file.string()));
}

// Without this check, the case would pass on another engine than its id says. An unknown kind passes here, because the
// engine itself must refuse it.
void require_kind_of_case(const protocol::CaseInfo& info, std::string_view kind) {
  if (info.engine.empty() || kind == info.engine || find_engine_kind(kind) == nullptr) return;
  throw std::logic_error(
      fmt::format("play: case {0} is for the engine kind {1}, but its plan has a section for {2}: write the plan's "
                  "section for {1}, or name the kind {2} in the case (on_engines, SUITE_ENGINE)",
                  info.id, info.engine, kind));
}

std::unique_ptr<fabric::Boards> make_boards(const world::World& world) {
  const protocol::WorldPlan& plan = world.plan();
  if (!plan.is_on_several_hosts())
    return std::make_unique<fabric::SharedBoards>(fabric::shm::make_file_memory(plan.rendezvous, world.rank()));
  const rendezvous::FileStore store(plan.meeting_store(), plan.nonce, world.rank());
  return std::make_unique<fabric::messages::MessageBoards>(
      std::make_unique<fabric::tcp::TcpTransport>(store.with_prefix("boards/"), world.rank(), plan.size));
}

std::unique_ptr<Platforms> make_platforms(world::World& world) {
  const protocol::WorldPlan& plan = world.plan();
  if (plan.device == protocol::sim_device) return std::make_unique<device::SimPlatforms>(world.group(), world.rank());
  return std::make_unique<device::cuda::CudaWorld>(
      device::cuda::load_vendor(plan.backend),
      device::cuda::GpuContext{.rank = world.rank(),
                               .check = [&world] { world.check_case(); },
                               .give_up_at = [&world](control::Deadline now) { return world.give_up_at(now); },
                               .flight = &world.flight(),
                               .epoch = [&world] { return world.epoch(); },
                               .keeps_records = plan.times == protocol::cupti_times},
      world.group(), make_boards(world));
}

}  // namespace

PlayService::PlayService(std::unique_ptr<Subject> subject, bool keeps_threads)
    : subject_(std::move(subject)), keeps_threads_(keeps_threads) {}

PlayService::~PlayService() = default;

PlayService& PlayService::of(const Rank& rank) {
  auto* const service = dynamic_cast<PlayService*>(&rank.membership().service());
  if (service == nullptr)
    throw std::logic_error(
        "this program plays no scenarios: link it to shardproof::play, and call play_main if it has its own main");
  return *service;
}

std::string PlayService::subject() const {
  return subject_ ? fmt::format("{} {}", subject_->name(), subject_->version()) : world::CaseService::subject();
}

void PlayService::join(world::World& world) {
  world_ = &world;
  platforms_ = make_platforms(world);
}

std::string PlayService::missing(const protocol::CaseInfo& info) const {
  if (subject_ == nullptr || (info.engine.empty() && info.needs.empty())) return world::CaseService::missing(info);
  std::vector<std::string> needs = info.needs;
  if (world_->plan().fabric == protocol::thread_fabric) needs.emplace_back(Feature::thread_ranks.name());
  const std::string lacking = subject_->claims().lacking(info.engine, needs);
  if (lacking.empty()) return {};
  std::string reason = fmt::format("subject {} does not claim {}", subject_->name(), lacking);
  if (!info.engine.empty() && !subject_->claims().plays(info.engine))
    reason += "; it claims " + claimed_kinds(*subject_);
  return reason;
}

void PlayService::begin_case() {
  played_.clear();
  live_bytes_ = 0;
  live_buffers_.clear();
  threads_of_runtime_.clear();
}

world::CaseLeftovers PlayService::take_leftovers() {
  world::CaseLeftovers left;
  if (const Reply reply = subject_ ? subject_->take_teardown_failure() : Reply{}; !reply.ok())
    left.engine_failure = reply.error();
  if (live_bytes_ > 0)
    left.live_memory = fmt::format("the subject left {} bytes of device memory alive, in {}", live_bytes_,
                                   trace::describe(live_buffers_));
  left.device_failure = platforms_->complaint();
  return left;
}

std::string PlayService::defect() const { return platforms_->defect(); }

// CUDA's threads belong to the harness's device, or to the subject's GPU.
bool PlayService::has_runtime() const { return keeps_threads_ || world_->plan().device != protocol::sim_device; }

bool PlayService::is_of_runtime(pid_t thread) const {
  return world_->plan().device != protocol::sim_device ||
         std::ranges::find(threads_of_runtime_, thread) != threads_of_runtime_.end();
}

void PlayService::write_trace(const Trace& trace) const {
  // Later plays of one case get their own documents: their streams and clocks begin anew.
  const std::string name = protocol::case_file_name(world_->notes().info->id, static_cast<int>(played_.size()));
  write_document(trace, protocol::WorldDirectory{world_->plan().directory}.traces() /
                            fmt::format("{}.rank-{}.json", name, world_->rank()));
}

void PlayService::keep_evidence() {
  if (!world_->plan().scenarios.empty()) return;  // the user has the document already
  const protocol::WorldDirectory directory{world_->plan().directory};
  for (std::size_t i = 0; i < played_.size(); ++i) {
    if (i > 0 && played_[i] == played_[i - 1]) continue;  // played again
    const auto file = directory.scenario(world_->notes().info->id, static_cast<int>(i) + 1);
    const auto mine = std::filesystem::path(file) += fmt::format(".rank-{}", world_->rank());
    try {
      write_document(played_[i], mine);
      std::filesystem::rename(mine, file);  // every rank writes the same document: the last one stays
    } catch (const std::system_error&) {
      std::error_code ignored;  // a full disk, for example, is not a second failure of the case
      std::filesystem::remove(mine, ignored);
    }
  }
}

std::unique_ptr<Platform> PlayService::make_platform(Rank& rank, const CostModel& costs, const DeviceOptions& options) {
  if (const std::string why = platforms_->objection(costs, options); !why.empty()) rank.skip(why);
  return platforms_->make(costs, options);
}

namespace {

/// Adds the threads that start in its lifetime to a list, also if an exception ends it.
class NewThreads {
 public:
  /// With nullptr, adds nothing.
  explicit NewThreads(std::vector<pid_t>* list)
      : list_(list), before_(list != nullptr ? world::thread_ids() : std::vector<pid_t>()) {}
  NewThreads(const NewThreads&) = delete;
  NewThreads& operator=(const NewThreads&) = delete;
  ~NewThreads() {
    if (list_ != nullptr) std::ranges::set_difference(world::thread_ids(), before_, std::back_inserter(*list_));
  }

 private:
  std::vector<pid_t>* list_;
  std::vector<pid_t> before_;
};

}  // namespace

Run PlayService::play_on(Platform& platform, const Scenario& scenario) {
  const NewThreads new_threads(keeps_threads_ ? &threads_of_runtime_ : nullptr);
  const bool is_for_user = !world_->plan().scenarios.empty();  // no case of a suite
  Run run = player::play(scenario, *subject_, platform, world_->rank(),
                         is_for_user ? ClipNotes::before_clipping : ClipNotes::none);
  live_bytes_ += run.left_alive();
  if (run.left_alive() > 0) std::ranges::move(trace::left_alive(run.trace()), std::back_inserter(live_buffers_));
  if (world_->plan().trace) write_trace(run.recording().clocked());
  return run;
}

std::unique_ptr<Platform> PlayService::stage(Rank& rank, const Scenario& scenario) {
  if (!subject_) throw std::logic_error("play: this program has no subject to play the scenario on");
  require_kind_of_case(*world_->notes().info, scenario.plan.engine.kind());
  played_.push_back(scenario);
  return make_platform(rank, scenario.costs, scenario.device);
}

Run PlayService::play(Rank& rank, const Scenario& scenario) { return play_on(*stage(rank, scenario), scenario); }

HeldRun PlayService::play(Rank& rank, const Scenario& scenario, const std::vector<Hold>& holds) {
  // First play once without a gate. Work that is loaded or set up at its first use would otherwise wait for the held
  // piece, and block the piece that should pass.
  HeldRun played{.run = play(rank, scenario), .passages = {}};
  std::vector<std::int64_t> free;
  for (const Hold& hold : holds) {
    const bool is_free = trace::can_pass(played.run.trace(), hold.held, hold.passes, played.run.resource());
    played.passages.push_back({.is_free = is_free, .has_passed = {}});
    free.push_back(is_free ? 1 : 0);
  }
  // Skip a hold whose second piece is ordered after the held piece: it would wait until the gate gives up. All ranks go
  // on, or no rank does.
  const Tensor all =
      rank.world().all_reduce(Tensor::of<std::int64_t>({std::ssize(free)}, free), ReduceOp::min, "may pass");
  for (std::size_t i = 0; i < holds.size(); ++i) {
    if (all.values<std::int64_t>()[i] == 0) continue;
    const std::unique_ptr<Platform> platform = stage(rank, scenario);
    HeldPlatform held(*platform, holds[i]);
    if (!held.has_gate()) break;
    play_on(held, scenario);
    played.passages[i].has_passed = held.has_passed();
  }
  return played;
}

}  // namespace shardproof::player

namespace shardproof {

Run play(Rank& rank, const Scenario& scenario) { return player::PlayService::of(rank).play(rank, scenario); }

player::HeldRun play(Rank& rank, const Scenario& scenario, const std::vector<player::Hold>& holds) {
  return player::PlayService::of(rank).play(rank, scenario, holds);
}

std::unique_ptr<Platform> make_platform(Rank& rank, const CostModel& costs, const DeviceOptions& options) {
  return player::PlayService::of(rank).make_platform(rank, costs, options);
}

std::filesystem::path given_scenario(const Rank& rank) {
  const world::World& world = rank.membership();
  const std::vector<std::filesystem::path>& given = world.plan().given;
  return given.empty() ? std::filesystem::path() : given.at(world.position());
}

}  // namespace shardproof

#include "harness/world/world.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/base/digest.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"
#include "harness/base/no_room.hpp"
#include "harness/base/random.hpp"
#include "harness/control/flight_ring.hpp"
#include "harness/protocol/clock_pair.hpp"
#include "harness/protocol/environment.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/world/event_stream.hpp"
#include "harness/world/seeded_scheduler.hpp"

namespace shardproof::world {

using control::AbortReason;
using control::Deadline;

namespace {

using nlohmann::ordered_json;

/// Short, and the same in all worlds on this host.
std::string id_of(const protocol::HostIdentity& host) {
  return fmt::format("{:016x}", base::digest(protocol::word_of(host)));
}

/// The first word is the host's id. The rest is the host's name.
std::string ballot_text_of(const protocol::HostIdentity& host) { return fmt::format("{} {}", id_of(host), host.name); }

Placement placement_of(std::span<const control::Ballot> ballots) {
  Placement placement;
  for (std::size_t rank = 0; rank < ballots.size(); ++rank) {
    const std::string_view text = ballots[rank].text;
    const std::size_t blank = text.find(' ');
    placement.add(static_cast<int>(rank), text.substr(std::min(blank + 1, text.size())), text.substr(0, blank));
  }
  return placement;
}

/// The GPU of a rank that the plan puts on one.
std::string gpu_of(const protocol::WorldPlan& plan) {
  const char* const visible = plan.device == protocol::cuda_device ? std::getenv("CUDA_VISIBLE_DEVICES") : nullptr;
  return visible == nullptr ? std::string() : std::string(visible);
}

// Write this before the rank meets other ranks. A stream that ends after it shows where its rank was lost.
void begin_stream(EventStream& stream, const protocol::WorldPlan& plan, int rank, const Membership& membership) {
  stream.write(protocol::event::RankStarted{.rank = rank,
                                            .world_size = plan.size,
                                            .pid = ::getpid(),
                                            .host = membership.host.identity.name,
                                            .nonce = plan.nonce,
                                            .suite_version = membership.suite_version,
                                            .build = membership.build,
                                            .protocol = protocol::Listing::current_protocol,
                                            .host_id = id_of(membership.host.identity),
                                            .gpu = gpu_of(plan),
                                            .interfaces = membership.host.interfaces,
                                            .clocks = protocol::read_clocks()});
}

/// The time that a launcher may need to examine hanging ranks, with a reserve.
constexpr std::chrono::seconds for_evidence{30};

std::string key_of(int rank) { return fmt::format("ranks/{}", rank); }

std::string differences(const ordered_json& first, const ordered_json& other, int other_rank) {
  std::string text;
  for (const auto& [name, value] : first.items()) {
    const ordered_json there = other.value(name, ordered_json());
    if (value == there) continue;
    text += fmt::format("{}{}: rank 0 has {}, rank {} has {}", text.empty() ? "" : "; ", name, base::dump_line(value),
                        other_rank, base::dump_line(there));
  }
  return text;
}

void check_kind(const protocol::WorldPlan& plan, int rank, bool are_threads) {
  const auto refuse = [&](const std::string& why) { throw WorldMismatch(fmt::format("rank {}: {}", rank, why)); };
  const bool is_on_gpus = plan.device == protocol::cuda_device;
  if (!is_on_gpus && plan.device != protocol::sim_device) {
    refuse(fmt::format("there is no device '{}'; there are: {}, {}", plan.device, protocol::sim_device,
                       protocol::cuda_device));
  }
  const std::string_view fabric = are_threads  ? protocol::thread_fabric
                                  : is_on_gpus ? protocol::nccl_fabric
                                               : protocol::shm_fabric;
  const bool may_send_messages = !are_threads && !is_on_gpus;
  const bool sends_messages = plan.fabric == protocol::tcp_fabric || plan.fabric == protocol::mpi_fabric;
  if (plan.fabric != fabric && !(may_send_messages && sends_messages)) {
    refuse(fmt::format("there is no fabric '{}' for ranks that are {} on the device '{}'; use {}{}", plan.fabric,
                       are_threads ? "threads" : "processes", plan.device, fabric,
                       may_send_messages ? fmt::format(", {} or {}", protocol::tcp_fabric, protocol::mpi_fabric) : ""));
  }
}

std::uint64_t seed_of(std::uint64_t seed_of_run, const protocol::CaseInfo& info) {
  std::uint64_t state = seed_of_run ^ base::digest(info.id);
  return base::next_random(state);
}

}  // namespace

World::World(protocol::WorldPlan plan, int rank, Membership membership, const Connector& connect,
             std::chrono::milliseconds for_others_to_come)
    : plan_(std::move(plan)),
      rank_(rank),
      membership_(std::move(membership)),
      stream_(std::make_unique<EventStream>(protocol::WorldDirectory{plan_.directory}.rank_stream(rank))),
      connection_((begin_stream(*stream_, plan_, rank, membership_), connect(plan_))),
      control_(*connection_.control),
      store_(plan_.meeting_store(), plan_.nonce, rank),
      self_(*this),
      service_(membership_.make_service()) {
  if (control_.world_size() != plan_.size) {
    throw WorldMismatch(fmt::format("rank {}: the plan is for {} ranks, the control page for {}", rank_, plan_.size,
                                    control_.world_size()));
  }
  check_kind(plan_, rank_, connection_.has_thread_ranks);
  progress_.pid = ::getpid();
  control_.report(rank_, progress_);
  try {
    making_ = connection_.make_fabric({.control = &control_,
                                       .store = &store_,
                                       .directory = plan_.rendezvous,
                                       .epoch = [this] { return epoch_; },
                                       .give_up_at = [this](Deadline now) { return give_up_at(now); },
                                       .rank = rank_});
    meet(for_others_to_come);
    group_ = watch_world(making_->join(), notes_.calls);
    service_->join(*this);
  } catch (const base::NoRoom& failure) {
    leave_without_room(failure.what());
  }
}

void World::leave_without_room(std::string_view why) {
  const control::Abort abort = control::no_room_for(rank_, why);
  control_.doom(abort);
  throw control::Released(control_.doomed().value_or(abort));
}

World::~World() = default;

void World::meet(std::chrono::milliseconds for_others_to_come) {
  const std::string mine = base::dump_line({{"suite version", membership_.suite_version},
                                            {"build", membership_.build},
                                            {"cases", membership_.cases},
                                            {"seed", plan_.seed},
                                            {"subject", service_->subject()},
                                            {"fault", plan_.fault},
                                            {"fabric", plan_.fabric},
                                            {"device", plan_.device}});
  // The ballots are digests. While they are equal, no rank needs to write or read a file.
  const Deadline deadline = std::chrono::steady_clock::now() + for_others_to_come;
  const auto ballots =
      control_.agree(rank_, {.value = base::digest(mine), .text = ballot_text_of(membership_.host.identity)}, deadline);
  placement_ = placement_of(ballots);
  const auto differs =
      std::ranges::find_if(ballots, [&](const auto& ballot) { return ballot.value != ballots.front().value; });
  if (differs == ballots.end()) return;
  store_.put(key_of(rank_), mine);
  const auto other = static_cast<int>(differs - ballots.begin());
  const std::array keys{key_of(0), key_of(other)};
  const std::vector<std::string> values = store_.wait(keys, deadline);
  throw WorldMismatch(fmt::format("the ranks of this world disagree: {}",
                                  differences(base::parse_json(values[0]), base::parse_json(values[1]), other)));
}

std::string World::missing(const protocol::CaseInfo& info) const {
  const std::string unsuitable = unsuitable_for(info);
  return unsuitable.empty() ? service_->missing(info) : unsuitable;
}

std::string World::unsuitable_for(const protocol::CaseInfo& info) const {
  if (info.on_threads && plan_.fabric != protocol::thread_fabric)
    return "its ranks must be threads of one process, and here they are processes";
  // Without names of hosts: a report must not depend on them.
  if (const std::size_t hosts = placement_.hosts().size(); std::cmp_less(hosts, info.hosts))
    return fmt::format("its ranks must be on {} hosts, and here they are on {}", info.hosts, hosts);
  return {};
}

std::vector<control::Ballot> World::agree(const control::Ballot& mine) {
  // Other ranks may still be in their bodies, and use up the case's time there. Then their launcher needs time to
  // examine them.
  const Deadline deadline = std::chrono::steady_clock::now() + 2 * plan_.time_for(position()) + for_evidence;
  try {
    auto ballots = control_.agree(rank_, mine, deadline);
    making_.reset();  // a rank that agrees has joined
    return ballots;
  } catch (const control::DeadlineExceeded& exceeded) {
    const control::Abort abort{.culprit = -1, .reason = AbortReason::deadline, .text = exceeded.what()};
    control_.doom(abort);
    throw control::Released(control_.doomed().value_or(abort));
  }
}

void World::begin(const protocol::CaseInfo& info, std::uint64_t position) {
  notes_ = {.info = &info, .seed = seed_of(plan_.seed, info)};
  service_->begin_case();
  epoch_ = static_cast<std::uint32_t>(position + 1);
  if (connection_.scheduler) connection_.scheduler->begin(epoch_, info.id, notes_.seed);
  progress_.position = static_cast<std::int64_t>(position);
  progress_.case_started_ns = monotonic_ns();
  control_.flight(rank_).enter(protocol::FlightEntry::What::case_begun, position, std::chrono::steady_clock::now());
  control_.report(rank_, progress_);
}

// A rank that waits for a hanging rank should give up before the launcher's clock for the case runs out. It reports its
// wait, and goes to the end of the case. So only the rank that is really overdue remains for the launcher. A rank that
// begins to wait after that time leaves the decision to the launcher. The launcher may already examine the other ranks,
// which delays them.
Deadline World::give_up_at(Deadline now) const {
  const auto time = std::chrono::nanoseconds(plan_.time_for(position()));
  const Deadline started = progress_.position < 0 ? now : Deadline(std::chrono::nanoseconds(progress_.case_started_ns));
  const Deadline usual = started + time * 3 / 4;
  // A peer without a core for a moment is not missing, however short the time of the case is.
  const auto least = std::max(time / 8, std::min<std::chrono::nanoseconds>(time / 2, std::chrono::milliseconds(500)));
  return now < usual ? std::max(usual, now + least) : now + time + for_evidence;
}

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

void World::abort(AbortReason reason, std::string_view text) {
  control_.raise_abort(epoch_, {.culprit = rank_, .reason = reason, .text = std::string(text)});
}

void World::doom(AbortReason reason, std::string_view text) {
  control_.doom({.culprit = rank_, .reason = reason, .text = std::string(text)});
}

void World::body_ended() {
  control_.flight(rank_).enter(protocol::FlightEntry::What::body_ended, epoch_ - 1, std::chrono::steady_clock::now());
  progress_.position = -1;
  ++progress_.cases_ended;
  control_.report(rank_, progress_);
}

void World::case_failed() {
  ++progress_.cases_failed;
  control_.report(rank_, progress_);
}

void World::leave(std::string cut_short, bool is_by_case) {
  agree({});
  stream_->write(
      protocol::event::RankEnded{.rank = rank_, .cut_short = std::move(cut_short), .is_by_case = is_by_case});
  control_.flight(rank_).enter(protocol::FlightEntry::What::left, 0, std::chrono::steady_clock::now());
  progress_.left = true;
  control_.report(rank_, progress_);
}

}  // namespace shardproof::world

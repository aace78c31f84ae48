#include "harness/fabric/shm/shm_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "harness/base/no_room.hpp"
#include "harness/base/utf8.hpp"
#include "harness/control/flight_ring.hpp"
#include "harness/fabric/transfer.hpp"

namespace shardproof::fabric::shm {

namespace {

constexpr FabricCapabilities shm_capabilities{
    .rank_ordered = true, .pre_checked = true, .survives_abort = true, .multi_host = false};

/// Room for a request at a place in a slot.
std::byte* request_at(std::byte* slot, std::size_t index) { return slot + index * sizeof(Request); }

}  // namespace

ShmGroup::ShmGroup(std::shared_ptr<const ShmContext> shared, std::string name, std::uint64_t id,
                   std::vector<int> members, std::shared_ptr<Region> region)
    : CheckedGroup(shared, std::move(name), id, std::move(members)), shm_(std::move(shared)) {
  if (region) meeting_.emplace(std::move(region), size(), rank(), shm_->slot_bytes);
}

const FabricCapabilities& ShmGroup::capabilities() const { return shm_capabilities; }

void ShmGroup::enter(std::uint32_t epoch) { meeting_->enter(epoch); }

Receipt ShmGroup::exchange(const Request& request, CollectiveKind kind, std::span<const Call> calls) {
  Receipt receipt{request.descriptor.sequence, request.descriptor.ready_ns};
  const std::size_t batch = request.descriptor.kind == CollectiveKind::coalesced ? calls.size() : 0;
  Transfer transfer(size(), rank(), kind, calls);
  std::size_t announced = 0;  // of the batch
  bool first = true;
  do {
    meeting_->turn();
    const std::size_t fit = std::min(batch - announced, meeting_->slot_bytes() / sizeof(Request));
    for (std::size_t i = 0; i < fit; ++i) {
      const Call& call = calls[announced + i];
      const Request part{call.descriptor, call.to, call.from};
      std::memcpy(request_at(meeting_->slot(rank()), i), &part, sizeof part);
    }
    const bool compare = first || fit > 0;
    if (compare) meeting_->request(rank()) = request;
    const bool all_announced = announced + fit == batch;
    // In the same fill as the last requests, so a small call ends with its first meeting. If the requests differ, no
    // rank uses the bytes.
    if (all_announced) transfer.write(meeting_->slots(), fit * sizeof(Request));

    meet(request, [&] {
      if (compare) meeting_->write_verdict(judge(fit, announced));
    });
    if (compare) {
      const Verdict verdict = meeting_->read_verdict();
      if (!verdict.mismatch.empty()) throw Mismatch(verdict.mismatch);
      receipt.latest_ready_ns = std::max(receipt.latest_ready_ns, verdict.latest_ready_ns);
    }
    if (all_announced) {
      if (transfer.in_two_steps()) {
        transfer.reduce_own_part();
        meet(request, [] {});
      }
      transfer.read();
    }
    announced += fit;
    first = false;
  } while (announced < batch || !transfer.done());
  return receipt;
}

// -- Meetings ---------------------------------------------------------------------------------------------------------

template <class Last>
void ShmGroup::meet(const Request& request, const Last& as_last) {
  // All ranks sleep on the doorbell of the first member, and only the last rank to come rings it. So each rank is woken
  // once.
  const int bell = members().front();
  control::FlightRing& flight = context().control->flight(context().rank);
  flight.meet();
  if (meeting_->arrive()) {
    as_last();
    if (context().detect_deadlock) context().control->leave_waits(size() - 1);
    meeting_->complete();
    context().control->ring(bell);
    return;
  }
  const control::Deadline now = std::chrono::steady_clock::now();
  flight.wait(now);
  if (context().detect_deadlock) context().control->enter_wait(epoch());
  try {
    context().control->await(
        bell, [this] { return meeting_->completed(); }, epoch(), context().give_up_at(now),
        [&] { return late(request, std::chrono::steady_clock::now() - now); });
  } catch (const control::DeadlineExceeded& deadline) {
    // The case is over. A rank that comes late, or makes another call, must not meet the ranks that have given up.
    context().control->raise_abort(epoch(), {context().rank, control::AbortReason::deadline, deadline.what()});
    throw;
  }
}

Verdict ShmGroup::judge(std::size_t batched, std::size_t first_of_batch) const {
  const auto part_of = [this](int rank, std::size_t i) {
    Request part;
    std::memcpy(&part, request_at(meeting_->slot(rank), i), sizeof part);
    return part;
  };
  return CheckedGroup::judge([this](int rank) { return meeting_->request(rank); }, part_of, batched, first_of_batch);
}

std::string ShmGroup::late(const Request& request, std::chrono::nanoseconds waited) const {
  std::vector<int> missing;
  for (int peer = 0; peer < size(); ++peer) {
    if (!meeting_->has_arrived(peer)) missing.push_back(world_rank(peer));
  }
  return CheckedGroup::late(request.descriptor, waited, "there is no sign of", missing);
}

// -- Splitting --------------------------------------------------------------------------------------------------------

namespace {

/// The message of a new group's first rank to the others: the name of its region, or the reason why there is no region.
struct Invitation {
  enum State : std::uint32_t { none, made, failed };
  std::uint32_t state = none;
  char text[252] = {};

  void say(State what, std::string_view words) {
    state = what;
    std::copy_n(words.begin(), base::length_within(words, sizeof text - 1), text);
  }
};

}  // namespace

std::shared_ptr<Group> ShmGroup::split(int color, int key, std::string_view name) {
  if (size() == 1) {
    return color < 0
               ? nullptr
               : std::make_shared<ShmGroup>(shm_, std::string(name), id(), std::vector<int>{context().rank}, nullptr);
  }
  const std::string tag = fmt::format("split {}", name);
  const Wish wish{color, key};
  std::vector<Wish> wishes(members().size());
  gather(tag, &wish, sizeof wish, wishes.data());
  const std::vector<int> ranks = ranks_of(color, wishes);

  const int leader = ranks.front();
  const bool shares = color >= 0 && ranks.size() > 1;
  const std::size_t bytes = Meeting::bytes(static_cast<int>(ranks.size()), shm_->slot_bytes);
  std::shared_ptr<Region> region;
  Invitation invitation;
  if (shares && leader == rank()) {
    try {
      auto [made, region_name] = shm_->memory->create(bytes);
      region = std::move(made);
      invitation.say(Invitation::made, region_name);
    } catch (const base::NoRoom& failure) {
      // Not an error of the case. Each rank is released, wherever it is, and no assertion counts.
      const control::Abort abort = control::no_room_for(context().rank, failure.what());
      context().control->doom(abort);
      throw control::Released(context().control->doomed().value_or(abort));
    } catch (const std::exception& failure) {
      invitation.say(Invitation::failed, failure.what());
    }
  }
  std::vector<Invitation> invitations(members().size());
  gather(tag, &invitation, sizeof invitation, invitations.data());
  for (std::size_t rank = 0; rank < invitations.size(); ++rank) {
    if (invitations[rank].state != Invitation::failed) continue;
    throw std::runtime_error(fmt::format("group {}: split into {}: rank {}: {}", this->name(), name, members()[rank],
                                         invitations[rank].text));
  }
  if (shares && leader != rank())
    region = shm_->memory->attach(invitations[static_cast<std::size_t>(leader)].text, bytes);
  barrier(tag);
  if (region) region->drop_name();
  if (color < 0) return nullptr;
  return std::make_shared<ShmGroup>(shm_, std::string(name), id_of_part(color, name), world_ranks(ranks),
                                    std::move(region));
}

}  // namespace shardproof::fabric::shm

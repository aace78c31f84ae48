#include "harness/fabric/shm/shm_group.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "harness/base/digest.hpp"
#include "harness/base/no_room.hpp"
#include "harness/base/utf8.hpp"
#include "harness/control/flight_ring.hpp"
#include "harness/fabric/objection.hpp"
#include "harness/fabric/shm/fold.hpp"
#include "harness/fabric/shm/transfer.hpp"

namespace shardproof::fabric::shm {

using protocol::FlightEntry;

namespace {

constexpr FabricCapabilities shm_capabilities{
    .rank_ordered = true, .pre_checked = true, .survives_abort = true, .multi_host = false};

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter;
}

/// Room for a request at a place in a slot.
std::byte* request_at(std::byte* slot, std::size_t index) { return slot + index * sizeof(Request); }

}  // namespace

ShmGroup::ShmGroup(std::shared_ptr<const RankContext> context, std::string name, std::uint64_t id,
                   std::vector<int> members, std::shared_ptr<Region> region)
    : context_(std::move(context)), name_(std::move(name)), id_(id), members_(std::move(members)) {
  index_ = static_cast<int>(std::find(members_.begin(), members_.end(), context_->rank) - members_.begin());
  if (!region) return;
  meeting_.emplace(std::move(region), size(), index_, context_->slot_bytes);
  flight_place_ = context_->control->flight(context_->rank).join_group(id_, name_, members_);
}

const FabricCapabilities& ShmGroup::capabilities() const { return shm_capabilities; }

// -- Calls ------------------------------------------------------------------------------------------------------------

void ShmGroup::validate(const Call& call) const {
  const std::string why = objection(call, index_, size());
  if (why.empty()) return;
  throw std::invalid_argument(
      fmt::format("group {}, rank {}: {}: {}", name_, context_->rank, describe_request(call.descriptor), why));
}

void ShmGroup::run_locally(const Call& call) const {
  const Descriptor& asked = call.descriptor;
  if (reduces(asked.kind)) {
    fold(asked.dtype, asked.op, asked.factor, {call.in.data(), 0, 1}, call.out.data(), asked.count);
  } else if (asked.kind == CollectiveKind::send_recv) {
    if (call.to != call.from)
      throw Mismatch(fmt::format("group {}: rank {} must both send to itself and receive from itself, or neither",
                                 name_, context_->rank));
    if (call.from >= 0) copy_bytes(call.out.data(), call.in.data(), call.out.size());
  } else {
    copy_bytes(call.out.data(), call.in.data(), call.out.size());
  }
}

void ShmGroup::begin(Descriptor& descriptor) {
  const std::uint32_t epoch = context_->epoch();
  if (epoch != epoch_) sequence_ = 0;
  epoch_ = epoch;
  descriptor.sequence = sequence_;
  if (!meeting_) {
    ++sequence_;
    return;
  }
  context_->control->pause();
  context_->control->check(epoch);
  meeting_->enter(epoch);
  ++sequence_;
  control::FlightRing& flight = context_->control->flight(context_->rank);
  if (!flight.knows_group(flight_place_, id_)) flight_place_ = flight.join_group(id_, name_, members_);
  flight.enter_call(id_, epoch, descriptor);
}

Receipt ShmGroup::run(const Call& call) {
  validate(call);
  Request request{call.descriptor, call.to, call.from};
  begin(request.descriptor);
  if (meeting_) return issue(request, call.descriptor.kind, {&call, 1});
  run_locally(call);
  return {request.descriptor.sequence, call.descriptor.ready_ns};
}

Receipt ShmGroup::run_coalesced(std::span<const Call> calls) {
  Request request;
  request.descriptor.kind = CollectiveKind::coalesced;
  request.descriptor.count = calls.size();
  if (!calls.empty()) {
    request.descriptor.set_tag(calls.front().descriptor.tag_view());
    request.descriptor.ready_ns = calls.front().descriptor.ready_ns;
  }
  for (const Call& call : calls) {
    validate(call);
    if (call.descriptor.kind != calls.front().descriptor.kind) {
      throw std::invalid_argument(fmt::format("group {}, rank {}: a batch mixes {} and {}: use calls of one kind",
                                              name_, context_->rank, to_string(calls.front().descriptor.kind),
                                              to_string(call.descriptor.kind)));
    }
    request.descriptor.ready_ns = std::max(request.descriptor.ready_ns, call.descriptor.ready_ns);
  }
  begin(request.descriptor);
  if (meeting_) return issue(request, calls.empty() ? CollectiveKind::barrier : calls.front().descriptor.kind, calls);
  for (const Call& call : calls) run_locally(call);
  return {request.descriptor.sequence, request.descriptor.ready_ns};
}

Receipt ShmGroup::issue(const Request& request, CollectiveKind kind, std::span<const Call> calls) {
  control::FlightRing& flight = context_->control->flight(context_->rank);
  try {
    const Receipt receipt = exchange(request, kind, calls);
    flight.end(FlightEntry::State::left);
    return receipt;
  } catch (const control::DeadlineExceeded&) {
    flight.end(FlightEntry::State::given_up);
    throw;
  } catch (const Mismatch&) {
    flight.end(FlightEntry::State::refused);
    throw;
  } catch (...) {
    flight.end(FlightEntry::State::released);
    throw;
  }
}

Receipt ShmGroup::exchange(const Request& request, CollectiveKind kind, std::span<const Call> calls) {
  Receipt receipt{request.descriptor.sequence, request.descriptor.ready_ns};
  const std::size_t batch = request.descriptor.kind == CollectiveKind::coalesced ? calls.size() : 0;
  Transfer transfer(*meeting_, size(), index_, kind, calls);
  std::size_t announced = 0;  // of the batch
  bool first = true;
  do {
    meeting_->turn();
    const std::size_t fit = std::min(batch - announced, meeting_->slot_bytes() / sizeof(Request));
    for (std::size_t i = 0; i < fit; ++i) {
      const Call& call = calls[announced + i];
      const Request part{call.descriptor, call.to, call.from};
      std::memcpy(request_at(meeting_->slot(index_), i), &part, sizeof part);
    }
    const bool compare = first || fit > 0;
    if (compare) meeting_->request(index_) = request;
    const bool all_announced = announced + fit == batch;
    // In the same fill as the last requests, so a small call ends with its first meeting. If the requests differ, no
    // rank uses the bytes.
    if (all_announced) transfer.write(fit * sizeof(Request));

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
  const RankContext& context = *context_;
  // All ranks sleep on the doorbell of the first member, and only the last rank to come rings it. So each rank is woken
  // once.
  const int bell = members_.front();
  control::FlightRing& flight = context.control->flight(context.rank);
  flight.meet();
  if (meeting_->arrive()) {
    as_last();
    if (context.detect_deadlock) context.control->leave_waits(size() - 1);
    meeting_->complete();
    context.control->ring(bell);
    return;
  }
  const control::Deadline now = std::chrono::steady_clock::now();
  flight.wait(now);
  if (context.detect_deadlock) context.control->enter_wait(epoch_);
  try {
    context.control->await(
        bell, [this] { return meeting_->completed(); }, epoch_, context.give_up_at(now),
        [&] { return late(request, std::chrono::steady_clock::now() - now); });
  } catch (const control::DeadlineExceeded& deadline) {
    // The case is over. A rank that comes late, or makes another call, must not meet the ranks that have given up.
    context.control->raise_abort(epoch_, {context.rank, control::AbortReason::deadline, deadline.what()});
    throw;
  }
}

Verdict ShmGroup::judge(std::size_t batched, std::size_t first_of_batch) const {
  Verdict verdict;
  verdict.latest_ready_ns = std::numeric_limits<std::int64_t>::min();
  for (int rank = 0; rank < size(); ++rank) {
    verdict.latest_ready_ns = std::max(verdict.latest_ready_ns, meeting_->request(rank).descriptor.ready_ns);
  }
  verdict.mismatch = mismatch_between([this](int rank) { return meeting_->request(rank); }, "");
  for (std::size_t i = 0; i < batched && verdict.mismatch.empty(); ++i) {
    const auto part = [&](int rank) {
      Request request;
      std::memcpy(&request, request_at(meeting_->slot(rank), i), sizeof request);
      request.descriptor.sequence = 0;  // the batch has a sequence number, its parts have none
      return request;
    };
    verdict.mismatch = mismatch_between(part, fmt::format(", part {} of the batch", first_of_batch + i));
  }
  return verdict;
}

template <class RequestOf>
std::string ShmGroup::mismatch_between(const RequestOf& request_of, std::string_view part) const {
  const auto world_rank = [this](int rank) { return members_[static_cast<std::size_t>(rank)]; };
  const auto heading = [&] {
    return fmt::format("group {}, call #{}{}:", name_, meeting_->request(0).descriptor.sequence, part);
  };
  Request first = request_of(0);
  for (int rank = 1; rank < size(); ++rank) first.descriptor.enforces_tag |= request_of(rank).descriptor.enforces_tag;
  for (int rank = 1; rank < size(); ++rank) {
    const Request other = request_of(rank);
    if (same_request(first.descriptor, other.descriptor)) continue;
    return fmt::format("{} rank {} asks for {}, rank {} for {}", heading(), world_rank(0),
                       describe_request(first.descriptor), world_rank(rank), describe_request(other.descriptor));
  }
  if (first.descriptor.kind != CollectiveKind::send_recv) return {};
  const auto named = [&](int rank) {
    return rank < 0 ? std::string("no rank") : fmt::format("rank {}", world_rank(rank));
  };
  for (int rank = 0; rank < size(); ++rank) {
    const Request mine = request_of(rank);
    if (mine.to >= 0) {
      if (const Request theirs = request_of(mine.to); theirs.from != rank) {
        return fmt::format("{} {} sends {} to {}, which receives from {}", heading(), named(rank),
                           describe_request(mine.descriptor), named(mine.to), named(theirs.from));
      }
    }
    if (mine.from >= 0) {
      if (const Request theirs = request_of(mine.from); theirs.to != rank) {
        return fmt::format("{} {} receives {} from {}, which sends to {}", heading(), named(rank),
                           describe_request(mine.descriptor), named(mine.from), named(theirs.to));
      }
    }
  }
  return {};
}

std::string ShmGroup::late(const Request& request, std::chrono::nanoseconds waited) const {
  std::string missing;
  for (int rank = 0; rank < size(); ++rank) {
    if (meeting_->has_arrived(rank)) continue;
    const int world_rank = members_[static_cast<std::size_t>(rank)];
    const auto call = context_->control->last_call(world_rank);
    fmt::format_to(std::back_inserter(missing), "{} rank {} ({})", missing.empty() ? "" : ",", world_rank,
                   call.empty() ? "no call yet" : "last call: " + call);
  }
  return fmt::format("rank {}: {} in group {}: after {:.3g} s {}{}", context_->rank, describe(request.descriptor),
                     name_, std::chrono::duration<double>(waited).count(),
                     missing.empty() ? "the last rank arrived as the deadline passed" : "there is no sign of", missing);
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
  if (size() == 1)
    return color < 0 ? nullptr : std::make_shared<ShmGroup>(context_, std::string(name), id_, members_, nullptr);

  const auto gather = [&](const void* mine, std::size_t bytes, void* all) {
    Call call;
    call.descriptor.kind = CollectiveKind::all_gather;
    call.descriptor.count = bytes;
    call.descriptor.set_tag(fmt::format("split {}", name));
    call.in = {static_cast<const std::byte*>(mine), bytes};
    call.out = {static_cast<std::byte*>(all), bytes * static_cast<std::size_t>(size())};
    run(call);
  };

  const std::array<std::int32_t, 2> wish{color, key};
  std::vector<std::array<std::int32_t, 2>> wishes(members_.size());
  gather(&wish, sizeof wish, wishes.data());
  std::vector<std::tuple<int, int>> order;  // of the new group: key, rank here
  for (int rank = 0; rank < size(); ++rank) {
    const auto& [its_color, its_key] = wishes[static_cast<std::size_t>(rank)];
    if (its_color == color) order.emplace_back(its_key, rank);
  }
  std::sort(order.begin(), order.end());
  std::vector<int> members;
  for (const auto& [its_key, rank] : order) members.push_back(members_[static_cast<std::size_t>(rank)]);

  const int leader = std::get<1>(order.front());
  const bool shares = color >= 0 && members.size() > 1;
  const std::size_t bytes = Meeting::bytes(static_cast<int>(members.size()), context_->slot_bytes);
  std::shared_ptr<Region> region;
  Invitation invitation;
  if (shares && leader == index_) {
    try {
      auto [made, region_name] = context_->memory->create(bytes);
      region = std::move(made);
      invitation.say(Invitation::made, region_name);
    } catch (const base::NoRoom& failure) {
      // Not an error of the case. Each rank is released, wherever it is, and no assertion counts.
      const control::Abort abort = control::no_room_for(context_->rank, failure.what());
      context_->control->doom(abort);
      throw control::Released(context_->control->doomed().value_or(abort));
    } catch (const std::exception& failure) {
      invitation.say(Invitation::failed, failure.what());
    }
  }
  std::vector<Invitation> invitations(members_.size());
  gather(&invitation, sizeof invitation, invitations.data());
  for (std::size_t rank = 0; rank < invitations.size(); ++rank) {
    if (invitations[rank].state != Invitation::failed) continue;
    throw std::runtime_error(
        fmt::format("group {}: split into {}: rank {}: {}", name_, name, members_[rank], invitations[rank].text));
  }
  if (shares && leader != index_)
    region = context_->memory->attach(invitations[static_cast<std::size_t>(leader)].text, bytes);
  barrier(fmt::format("split {}", name));
  if (region) region->drop_name();
  if (color < 0) return nullptr;
  const std::uint64_t id = base::digest(fmt::format("{}/{}/{}/{}/{}", id_, epoch_, sequence_, color, name));
  return std::make_shared<ShmGroup>(context_, std::string(name), id, std::move(members), std::move(region));
}

}  // namespace shardproof::fabric::shm

#include "harness/fabric/checked_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <thread>
#include <utility>

#include "harness/base/digest.hpp"
#include "harness/control/flight_ring.hpp"
#include "harness/fabric/fold.hpp"
#include "harness/fabric/objection.hpp"
#include "harness/fabric/transfer.hpp"

namespace shardproof::fabric {

using protocol::FlightEntry;

std::function<control::Deadline(control::Deadline)> usual_deadline(std::chrono::milliseconds timeout, int world_size) {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int ranks_per_core = (world_size + cores - 1) / cores;
  return [time = timeout * ranks_per_core](control::Deadline now) { return now + time; };
}

std::vector<int> all_ranks(int world_size) {
  std::vector<int> ranks(static_cast<std::size_t>(world_size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

CheckedGroup::CheckedGroup(std::shared_ptr<const RankContext> context, std::string name, std::uint64_t id,
                           std::vector<int> members)
    : context_(std::move(context)), name_(std::move(name)), id_(id), members_(std::move(members)) {
  index_ = static_cast<int>(std::find(members_.begin(), members_.end(), context_->rank) - members_.begin());
  if (size() > 1) flight_place_ = context_->control->flight(context_->rank).join_group(id_, name_, members_);
}

// -- Calls ------------------------------------------------------------------------------------------------------------

void CheckedGroup::validate(const Call& call) const {
  const std::string why = objection(call, index_, size());
  if (why.empty()) return;
  throw std::invalid_argument(
      fmt::format("group {}, rank {}: {}: {}", name_, context_->rank, describe_request(call.descriptor), why));
}

void CheckedGroup::run_locally(const Call& call) const {
  const Descriptor& asked = call.descriptor;
  if (asked.op != ReduceOp::none) {
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

void CheckedGroup::begin(Descriptor& descriptor) {
  const std::uint32_t epoch = context_->epoch();
  if (epoch != epoch_) sequence_ = 0;
  epoch_ = epoch;
  descriptor.sequence = sequence_;
  if (size() == 1) {
    ++sequence_;
    return;
  }
  context_->control->pause();
  context_->control->check(epoch);
  enter(epoch);
  ++sequence_;
  control::FlightRing& flight = context_->control->flight(context_->rank);
  if (!flight.knows_group(flight_place_, id_)) flight_place_ = flight.join_group(id_, name_, members_);
  flight.enter_call(id_, epoch, descriptor);
}

Receipt CheckedGroup::run(const Call& call) {
  validate(call);
  Request request{call.descriptor, call.to, call.from};
  begin(request.descriptor);
  if (size() > 1) return issue(request, call.descriptor.kind, {&call, 1});
  run_locally(call);
  return {request.descriptor.sequence, call.descriptor.ready_ns};
}

Receipt CheckedGroup::run_coalesced(std::span<const Call> calls) {
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
  if (size() > 1) return issue(request, calls.empty() ? CollectiveKind::barrier : calls.front().descriptor.kind, calls);
  for (const Call& call : calls) run_locally(call);
  return {request.descriptor.sequence, request.descriptor.ready_ns};
}

Receipt CheckedGroup::issue(const Request& request, CollectiveKind kind, std::span<const Call> calls) {
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

// -- Texts ------------------------------------------------------------------------------------------------------------

std::string CheckedGroup::part_of_batch(std::size_t number) { return fmt::format(", part {} of the batch", number); }

std::string CheckedGroup::heading(std::uint64_t sequence, std::string_view part) const {
  return fmt::format("group {}, call #{}{}:", name_, sequence, part);
}

std::string CheckedGroup::named(int rank) const {
  return rank < 0 ? std::string("no rank") : fmt::format("rank {}", world_rank(rank));
}

std::string CheckedGroup::difference(std::uint64_t sequence, std::string_view part, const Descriptor& first, int rank,
                                     const Descriptor& other) const {
  return fmt::format("{} rank {} asks for {}, rank {} for {}", heading(sequence, part), world_rank(0),
                     describe_request(first), world_rank(rank), describe_request(other));
}

std::string CheckedGroup::unpaired_send(std::uint64_t sequence, std::string_view part, int rank, const Request& mine,
                                        const Request& theirs) const {
  return fmt::format("{} {} sends {} to {}, which receives from {}", heading(sequence, part), named(rank),
                     describe_request(mine.descriptor), named(mine.to), named(theirs.from));
}

std::string CheckedGroup::unpaired_receive(std::uint64_t sequence, std::string_view part, int rank, const Request& mine,
                                           const Request& theirs) const {
  return fmt::format("{} {} receives {} from {}, which sends to {}", heading(sequence, part), named(rank),
                     describe_request(mine.descriptor), named(mine.from), named(theirs.to));
}

std::string CheckedGroup::late(const Descriptor& asked, std::chrono::nanoseconds waited, std::string_view sign,
                               std::span<const int> missing) const {
  std::string names;
  for (const int rank : missing) {
    const auto call = context_->control->last_call(rank);
    fmt::format_to(std::back_inserter(names), "{} rank {} ({})", names.empty() ? "" : ",", rank,
                   context_->control->is_remote(rank) ? "on another host"
                   : call.empty()                     ? "no call yet"
                                                      : "last call: " + call);
  }
  return fmt::format("rank {}: {} in group {}: after {:.3g} s {}{}", context_->rank, describe(asked), name_,
                     std::chrono::duration<double>(waited).count(),
                     names.empty() ? "the last rank arrived as the deadline passed" : sign, names);
}

// -- Splitting --------------------------------------------------------------------------------------------------------

void CheckedGroup::gather(std::string_view tag, const void* mine, std::size_t bytes, void* all) {
  Call call;
  call.descriptor.kind = CollectiveKind::all_gather;
  call.descriptor.count = bytes;
  call.descriptor.set_tag(tag);
  call.in = {static_cast<const std::byte*>(mine), bytes};
  call.out = {static_cast<std::byte*>(all), bytes * static_cast<std::size_t>(size())};
  run(call);
}

std::vector<int> CheckedGroup::ranks_of(std::int32_t color, std::span<const Wish> wishes) const {
  std::vector<int> ranks;
  for (int rank = 0; rank < size(); ++rank) {
    if (wishes[static_cast<std::size_t>(rank)].color == color) ranks.push_back(rank);
  }
  std::ranges::stable_sort(ranks, {}, [&](int rank) { return wishes[static_cast<std::size_t>(rank)].key; });
  return ranks;
}

std::vector<int> CheckedGroup::world_ranks(std::span<const int> ranks) const {
  std::vector<int> result;
  for (const int rank : ranks) result.push_back(world_rank(rank));
  return result;
}

std::uint64_t CheckedGroup::id_of_part(int color, std::string_view name) const {
  return base::digest(fmt::format("{}/{}/{}/{}/{}", id_, epoch_, sequence_, color, name));
}

}  // namespace shardproof::fabric

#include "harness/fabric/messages/message_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <utility>

#include "harness/base/utf8.hpp"
#include "harness/control/flight_ring.hpp"
#include "harness/fabric/transfer.hpp"
#include "harness/protocol/flight_record.hpp"

namespace shardproof::fabric::messages {

namespace {

constexpr FabricCapabilities message_capabilities{
    .rank_ordered = true, .pre_checked = true, .survives_abort = false, .multi_host = true};

/// A rank's request as a message. The requests of `parts` parts of a batch follow it.
struct RequestHead {
  std::uint32_t epoch = 0;
  std::uint32_t parts = 0;
  Request request;
};

/// The verdict as a message. The text of a mismatch follows it.
struct VerdictHead {
  std::uint32_t epoch = 0;
  std::uint32_t mismatch_bytes = 0;
  std::int64_t latest_ready_ns = 0;
};

/// The first rank has a message of requests from each rank. Together they take at most about this many bytes.
constexpr std::size_t room_for_requests = 4U << 20;

template <class T>
T load(std::span<const std::byte> from, std::size_t offset = 0) {
  T value;
  std::memcpy(&value, from.data() + offset, sizeof value);
  return value;
}

template <class T>
void store(std::span<std::byte> to, const T& value, std::size_t offset = 0) {
  std::memcpy(to.data() + offset, &value, sizeof value);
}

std::size_t request_bytes(std::size_t parts) { return sizeof(RequestHead) + parts * sizeof(Request); }

Request part_in(std::span<const std::byte> message, std::size_t i) { return load<Request>(message, request_bytes(i)); }

}  // namespace

MessageGroup::MessageGroup(std::shared_ptr<const MessageContext> shared, std::string name, std::uint64_t id,
                           std::vector<int> members, int number)
    : CheckedGroup(shared, std::move(name), id, std::move(members)), messages_(std::move(shared)), number_(number) {}

const FabricCapabilities& MessageGroup::capabilities() const { return message_capabilities; }

// -- Calls ------------------------------------------------------------------------------------------------------------

void MessageGroup::enter(std::uint32_t) {
  if (messenger().gave_up().empty()) return;
  throw std::runtime_error(
      fmt::format("group {}: the fabric {} makes no call after one that ended early. Run this case in a fresh world. "
                  "The earlier call ended with: {}",
                  name(), messages_->fabric, messenger().gave_up()));
}

Receipt MessageGroup::exchange(const Request& request, CollectiveKind kind, std::span<const Call> calls) {
  try {
    return exchange_messages(request, kind, calls);
  } catch (const Mismatch&) {
    throw;  // all ranks throw it, and no message is left
  } catch (const control::DeadlineExceeded& deadline) {
    context().control->raise_abort(epoch(), {context().rank, control::AbortReason::deadline, deadline.what()});
    messenger().give_up(deadline.what());
    throw;
  } catch (const std::exception& failure) {
    messenger().give_up(failure.what());
    throw;
  }
}

Receipt MessageGroup::exchange_messages(const Request& request, CollectiveKind kind, std::span<const Call> calls) {
  Receipt receipt{request.descriptor.sequence, request.descriptor.ready_ns};
  const std::size_t batch = request.descriptor.kind == CollectiveKind::coalesced ? calls.size() : 0;
  std::size_t announced = 0;  // of the batch
  do {
    const std::size_t fit = std::min(batch - announced, parts_in_message());
    const Verdict verdict = compare(request, calls.subspan(batch == 0 ? 0 : announced, fit), announced);
    receipt.latest_ready_ns = std::max(receipt.latest_ready_ns, verdict.latest_ready_ns);
    announced += fit;
  } while (announced < batch);

  for (Transfer transfer(size(), rank(), kind, calls); !transfer.done(); transfer.read()) {
    transfer.write(messenger().slots(size()), 0);
    move_bytes(request, transfer);
    if (!transfer.in_two_steps()) continue;
    transfer.reduce_own_part();
    move_bytes(request, transfer);
  }
  return receipt;
}

std::size_t MessageGroup::parts_in_message() const {
  return std::clamp<std::size_t>(room_for_requests / static_cast<std::size_t>(size()) / sizeof(Request), 1, 512);
}

// -- Requests and verdict ---------------------------------------------------------------------------------------------

Verdict MessageGroup::compare(const Request& request, std::span<const Call> parts, std::size_t first_of_batch) {
  context().control->flight(context().rank).meet();
  const auto mine = messenger().outgoing(request_bytes(parts.size()));
  store(mine, RequestHead{epoch(), static_cast<std::uint32_t>(parts.size()), request});
  for (std::size_t i = 0; i < parts.size(); ++i)
    store(mine, Request{parts[i].descriptor, parts[i].to, parts[i].from}, request_bytes(i));

  Verdict verdict;
  if (rank() == 0) {
    verdict = judge_requests(request, mine, parts.size(), first_of_batch);
  } else {
    const auto room = messenger().incoming(0, sizeof(VerdictHead) + Verdict::longest_mismatch, 1);
    messenger().receive(room, world_rank(0), number_);
    messenger().send(mine, world_rank(0), number_);
    wait_for_messages(request, "the verdict is still to come from");
    const auto head = load<VerdictHead>(room);
    if (head.epoch != epoch()) refuse_old_message(head.epoch);
    verdict.latest_ready_ns = head.latest_ready_ns;
    verdict.mismatch.assign(reinterpret_cast<const char*>(room.data() + sizeof head), head.mismatch_bytes);
  }
  if (!verdict.mismatch.empty()) throw Mismatch(verdict.mismatch);
  return verdict;
}

Verdict MessageGroup::judge_requests(const Request& request, std::span<const std::byte> mine, std::size_t parts,
                                     std::size_t first_of_batch) {
  const std::size_t most_bytes = request_bytes(parts_in_message());
  const auto message_of = [&](int peer) {
    return peer == 0 ? mine : std::span<const std::byte>(messenger().incoming(peer, most_bytes, size()));
  };
  for (int peer = 1; peer < size(); ++peer)
    messenger().receive(messenger().incoming(peer, most_bytes, size()), world_rank(peer), number_);
  wait_for_messages(request, "there is no sign of");
  for (int peer = 1; peer < size(); ++peer) {
    if (const auto theirs = load<RequestHead>(message_of(peer)).epoch; theirs != epoch()) refuse_old_message(theirs);
  }
  // Where the sizes of the batches differ, so do the requests, and no part is compared.
  Verdict verdict = judge([&](int peer) { return load<RequestHead>(message_of(peer)).request; },
                          [&](int peer, std::size_t i) { return part_in(message_of(peer), i); }, parts, first_of_batch);
  verdict.mismatch.resize(base::length_within(verdict.mismatch, Verdict::longest_mismatch));

  const auto reply = messenger().outgoing(sizeof(VerdictHead) + verdict.mismatch.size());
  store(reply, VerdictHead{epoch(), static_cast<std::uint32_t>(verdict.mismatch.size()), verdict.latest_ready_ns});
  std::memcpy(reply.data() + sizeof(VerdictHead), verdict.mismatch.data(), verdict.mismatch.size());
  for (int peer = 1; peer < size(); ++peer) messenger().send(reply, world_rank(peer), number_);
  wait_for_messages(request, "the verdict is not received by");
  return verdict;
}

void MessageGroup::refuse_old_message(std::uint32_t epoch) const {
  throw std::runtime_error(
      fmt::format("group {}: a message of an earlier case arrived (case {}, now case {}): a call of that case ended "
                  "early, and the fabric {} needs a fresh world after it",
                  name(), epoch, this->epoch(), messages_->fabric));
}

// -- Bytes ------------------------------------------------------------------------------------------------------------

void MessageGroup::move_bytes(const Request& request, const Transfer& transfer) {
  const Slots slots = messenger().slots(size());
  for (int distance = 1; distance < size(); ++distance) {
    const int from = (rank() + size() - distance) % size();
    for (const Transfer::Range& range : transfer.read_from(from))
      messenger().receive({slots.of(from) + range.offset, range.bytes}, world_rank(from), number_);
  }
  for (int distance = 1; distance < size(); ++distance) {
    const int to = (rank() + distance) % size();
    for (const Transfer::Range& range : transfer.read_by(to))
      messenger().send({slots.of(rank()) + range.offset, range.bytes}, world_rank(to), number_);
  }
  wait_for_messages(request, "bytes are still to come from or to go to");
}

// -- Waiting ----------------------------------------------------------------------------------------------------------

namespace {

/// The longest wait for the verdict of a mismatch that has ended the case.
constexpr std::chrono::milliseconds verdict_limit{20};

/// Counts the rank as waiting, and searches for a deadlock now and then. Short waits cost nothing.
class LongWait {
 public:
  explicit LongWait(control::ControlPlane& control) : control_(control) {}
  ~LongWait() {
    if (is_counted_) control_.leave_message_wait();
  }
  LongWait(const LongWait&) = delete;
  LongWait& operator=(const LongWait&) = delete;

  void look(control::Deadline now) {
    if (!is_counted_) {
      control_.enter_message_wait();
      is_counted_ = true;
      next_ = now + interval_;
    }
    if (now < next_) return;
    control_.search_deadlock();
    interval_ = std::min(longest, 2 * interval_);
    next_ = now + interval_;
  }

 private:
  static constexpr std::chrono::milliseconds longest{32};
  control::ControlPlane& control_;
  bool is_counted_ = false;
  std::chrono::milliseconds interval_{2};
  control::Deadline next_;
};

}  // namespace

void MessageGroup::wait_for_messages(const Request& request, std::string_view sign) {
  messenger().advance();
  if (!messenger().has_operations()) return;
  const control::Deadline now = std::chrono::steady_clock::now(), give_up = context().give_up_at(now);
  context().control->flight(context().rank).wait(now);
  PollPause pause;
  LongWait wait(*context().control);
  while (true) {
    if (messenger().advance()) pause.restart();
    if (!messenger().has_operations()) return;
    const auto time = std::chrono::steady_clock::now();
    if (pause.sleeps() && context().detect_deadlock) wait.look(time);
    try {
      context().control->check(epoch());
    } catch (const control::Released& released) {
      // The first rank of this group may have found the mismatch. Then its verdict is on the way.
      const bool may_come = released.abort().reason == control::AbortReason::disagreed;
      if (!may_come || !messages_come_by(time + verdict_limit)) throw;
      return;
    }
    if (time > give_up) throw control::DeadlineExceeded(late(request, time - now, sign));
    pause.once();
  }
}

bool MessageGroup::messages_come_by(control::Deadline limit) {
  PollPause pause;
  while (messenger().has_operations()) {
    if (messenger().advance()) continue;
    if (std::chrono::steady_clock::now() > limit) return false;
    pause.once();
  }
  return true;
}

std::string MessageGroup::late(const Request& request, std::chrono::nanoseconds waited, std::string_view sign) const {
  // Most ranks wait for the first rank alone. The flight records of this host show which ranks it waits for.
  std::vector<int> late_ranks;
  for (const protocol::PeerWait& wait : protocol::waits(context().control->flight_records())) {
    if (wait.rank == context().rank) late_ranks = wait.missing;
  }
  std::erase_if(late_ranks, [this](int rank) { return context().control->is_remote(rank); });
  const bool is_known = rank() != 0 && !late_ranks.empty();
  std::string text = CheckedGroup::late(request.descriptor, waited, is_known ? "there is no sign of" : sign,
                                        is_known ? late_ranks : messenger().missing());
  for (const int rank : messenger().missing()) {
    if (const std::string trouble = messenger().transport().trouble(rank); !trouble.empty()) text += "; " + trouble;
  }
  return text;
}

std::string MessageGroup::why_out_of_reach() const {
  const messages::Transport& transport = messenger().transport();
  for (int rank = 0; rank < context().control->world_size(); ++rank) {
    if (transport.is_out_of_reach(rank)) return transport.trouble(rank);
  }
  return {};
}

// -- Splitting --------------------------------------------------------------------------------------------------------

std::shared_ptr<Group> MessageGroup::split(int color, int key, std::string_view name) {
  if (size() == 1) {
    return color < 0 ? nullptr
                     : std::make_shared<MessageGroup>(messages_, std::string(name), id(),
                                                      std::vector<int>{context().rank}, 0);
  }
  const std::string tag = fmt::format("split {}", name);
  const Wish wish{color, key};
  std::vector<Wish> wishes(members().size());
  gather(tag, &wish, sizeof wish, wishes.data());
  const std::int64_t mine = messenger().next_number;
  std::vector<std::int64_t> numbers(members().size());
  gather(tag, &mine, sizeof mine, numbers.data());
  const auto number = static_cast<int>(std::ranges::max(numbers));
  if (number > messenger().transport().greatest_tag()) {
    throw std::runtime_error(
        fmt::format("group {}: split into {}: {} has only {} tags, and each group that a rank ever "
                    "had takes one: make fewer groups in one world",
                    this->name(), name, messenger().transport().name(), messenger().transport().greatest_tag()));
  }
  messenger().next_number = number + 1;
  if (color < 0) return nullptr;
  const std::vector<int> ranks = ranks_of(color, wishes);
  return std::make_shared<MessageGroup>(messages_, std::string(name), id_of_part(color, name), world_ranks(ranks),
                                        number);
}

}  // namespace shardproof::fabric::messages

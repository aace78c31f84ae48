#include "tests/fabric/mailboxes.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

namespace shardproof::testing {

using fabric::messages::Arrival;
using fabric::messages::Operation;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t longest_eager = 4096;

struct Message {
  Clock::time_point arrives;
  std::vector<std::byte> copy;              // of a short message
  std::span<const std::byte> original;      // of a long one
  std::shared_ptr<bool> is_over = std::make_shared<bool>(false);
};

bool is_long(const Message& message) { return !message.original.empty(); }

struct Receive {
  std::span<std::byte> room;
  std::shared_ptr<bool> is_over = std::make_shared<bool>(false);
};

/// Between two ranks, with one tag.
struct Lane {
  std::deque<Message> messages;
  std::list<Receive> receives;  ///< in the order in which they take messages
};

struct Way {
  int from, to, tag;
  auto operator<=>(const Way&) const = default;
};

}  // namespace

struct Mailboxes::Shared {
  std::mutex mutex;
  std::map<Way, Lane> lanes;
  std::mt19937_64 random;
  std::map<int, int> sends_left;  ///< of ranks that are gone, or will be
  int size = 0, finished = 0, greatest_tag = 0;
  std::size_t sent = 0, longest = 0;

  bool is_gone(int rank) const {
    const auto found = sends_left.find(rank);
    return found != sends_left.end() && found->second <= 0;
  }

  Clock::time_point arrival() {
    const std::uint64_t draw = random();
    const auto delay = std::chrono::microseconds(draw % 4 == 0 ? (draw >> 8) % 300 : 0);
    return Clock::now() + delay;
  }

  static void match(Lane& lane) {
    while (!lane.messages.empty() && !lane.receives.empty() && lane.messages.front().arrives <= Clock::now()) {
      const Message& message = lane.messages.front();
      Receive& receive = lane.receives.front();
      const auto bytes = message.original.empty() ? std::span<const std::byte>(message.copy) : message.original;
      if (bytes.size() > receive.room.size()) throw std::runtime_error("mailboxes: a message is longer than its room");
      if (!bytes.empty()) std::memcpy(receive.room.data(), bytes.data(), bytes.size());
      *message.is_over = *receive.is_over = true;
      lane.messages.pop_front();
      lane.receives.pop_front();
    }
  }
};

class Mailboxes::Mailbox final : public fabric::messages::Transport {
 public:
  Mailbox(Shared& shared, int rank) : shared_(shared), rank_(rank) {}
  ~Mailbox() override { forget(); }

  std::string_view name() const override { return "mailboxes"; }
  int rank() const override { return rank_; }
  int size() const override { return shared_.size; }
  int greatest_tag() const override { return shared_.greatest_tag; }

  Operation send(std::span<const std::byte> bytes, int to, int tag) override {
    const std::lock_guard lock(shared_.mutex);
    Message message{.arrives = shared_.arrival(), .copy = {}, .original = {}};
    if (bytes.size() > longest_eager) {
      message.original = bytes;
    } else {
      message.copy.assign(bytes.begin(), bytes.end());
      *message.is_over = true;
    }
    const Way way{rank_, to, tag};
    const Operation operation = remember(way, message.is_over);
    if (!shared_.is_gone(to) && !shared_.is_gone(rank_)) shared_.lanes[way].messages.push_back(std::move(message));
    if (const auto left = shared_.sends_left.find(rank_); left != shared_.sends_left.end()) --left->second;
    ++shared_.sent;
    shared_.longest = std::max(shared_.longest, bytes.size());
    return operation;
  }

  Operation receive(std::span<std::byte> room, int from, int tag) override {
    const std::lock_guard lock(shared_.mutex);
    const Way way{from, rank_, tag};
    Receive receive{.room = room};
    const Operation operation = remember(way, receive.is_over);
    shared_.lanes[way].receives.push_back(std::move(receive));
    return operation;
  }

  bool test(Operation& operation) override {
    const std::lock_guard lock(shared_.mutex);
    const auto& [way, is_over] = begun_.at(operation.value);
    shared_.match(shared_.lanes[way]);
    if (!*is_over) return false;
    begun_.erase(operation.value);
    return true;
  }

  void cancel(Operation& operation) override {
    const std::lock_guard lock(shared_.mutex);
    const auto& [way, is_over] = begun_.at(operation.value);
    *is_over = true;
    std::erase_if(shared_.lanes[way].receives, [&](const Receive& it) { return it.is_over == is_over; });
  }

  std::optional<Arrival> probe() override {
    const std::lock_guard lock(shared_.mutex);
    for (auto& [way, lane] : shared_.lanes) {
      if (way.to != rank_) continue;
      shared_.match(lane);
      // A message that arrives between the two looks is for a receive, if there is one.
      if (!lane.receives.empty() || lane.messages.empty() || lane.messages.front().arrives > Clock::now()) continue;
      const Message& message = lane.messages.front();
      return Arrival{way.from, way.tag, message.original.empty() ? message.copy.size() : message.original.size()};
    }
    return std::nullopt;
  }

  void finish() override {
    const std::lock_guard lock(shared_.mutex);
    ++shared_.finished;
  }

  void abandon(std::shared_ptr<void>) override { forget(); }

 private:
  Operation remember(const Way& way, std::shared_ptr<bool> is_over) {
    begun_.emplace(++number_, std::pair(way, std::move(is_over)));
    return {number_};
  }

  /// No operation of this rank reads or writes its memory any more.
  void forget() {
    const std::lock_guard lock(shared_.mutex);
    for (auto& [way, lane] : shared_.lanes) {
      if (way.to == rank_) lane.receives.clear();
      if (way.from == rank_) std::erase_if(lane.messages, is_long);
    }
  }

  Shared& shared_;
  int rank_;
  std::uint64_t number_ = 0;
  std::map<std::uint64_t, std::pair<Way, std::shared_ptr<bool>>> begun_;
};

Mailboxes::Mailboxes(int size, std::uint64_t seed, int greatest_tag) : shared_(std::make_unique<Shared>()) {
  shared_->greatest_tag = greatest_tag;
  shared_->size = size;
  shared_->random.seed(seed);
}

Mailboxes::~Mailboxes() = default;

std::unique_ptr<fabric::messages::Transport> Mailboxes::open(int rank) {
  return std::make_unique<Mailbox>(*shared_, rank);
}

void Mailboxes::drop(int rank, int after_sends) {
  const std::lock_guard lock(shared_->mutex);
  shared_->sends_left[rank] = after_sends;
}

int Mailboxes::finished() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->finished;
}

std::size_t Mailboxes::unfinished_sends() const {
  const std::lock_guard lock(shared_->mutex);
  std::size_t unfinished = 0;
  for (const auto& [way, lane] : shared_->lanes)
    unfinished += static_cast<std::size_t>(std::ranges::count_if(lane.messages, is_long));
  return unfinished;
}

std::size_t Mailboxes::sent() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->sent;
}

std::size_t Mailboxes::longest() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->longest;
}

}  // namespace shardproof::testing

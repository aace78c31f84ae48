#include "harness/fabric/messages/message_boards.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace shardproof::fabric::messages {

namespace {

/// The beginning of a message: what a rank has done on its copy of a board. The text of a mismatch follows it.
struct BoardNews {
  enum What : std::uint32_t { posted, compared, found };
  What what = posted;
  std::uint64_t number = 0;
  Descriptor asked;
};

using Bytes = std::vector<std::byte>;

Bytes encode(const BoardNews& news, std::string_view text = {}) {
  Bytes bytes(sizeof news + text.size());
  std::memcpy(bytes.data(), &news, sizeof news);
  if (!text.empty()) std::memcpy(bytes.data() + sizeof news, text.data(), text.size());
  return bytes;
}

}  // namespace

/// The messages of all boards of a rank. The number of a board is the tag of its messages.
class MessageBoards::Exchange {
 public:
  explicit Exchange(std::unique_ptr<Transport> transport)
      : transport_(std::move(transport)), memory_(std::make_shared<Memory>()) {}
  ~Exchange() { transport_->abandon(std::move(memory_)); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  int rank() const { return transport_->rank(); }

  /// All ranks of a group open a board together, and take the greatest of their next numbers. So no two boards of a
  /// rank have the same number.
  int open(Group& group) {
    const std::array<std::int64_t, 1> mine{next_};
    const Tensor greatest =
        group.all_reduce(Tensor::of<std::int64_t>({1}, mine), ReduceOp::max, "number of a descriptor board");
    const auto number = static_cast<int>(greatest.values<std::int64_t>()[0]);
    if (number > transport_->greatest_tag())
      throw std::runtime_error(
          fmt::format("group {}: {} has only {} tags, and the board of each group takes one: make fewer groups in one "
                      "world",
                      group.name(), transport_->name(), transport_->greatest_tag()));
    next_ = number + 1;
    boards_.insert(number);
    return number;
  }

  void close(int number) {
    boards_.erase(number);
    arrived_.erase(number);
  }

  void send(const Bytes& news, int to, int number) {
    Sent& sent = memory_->sent.emplace_back(Sent{.bytes = news});
    sent.operation = transport_->send(sent.bytes, to, number);
  }

  struct Arrived {
    int from;
    Bytes bytes;
  };
  /// The messages that have come for a board. The messages of each sender are in the order in which it sent them.
  std::deque<Arrived> take(int number) {
    progress();
    const auto found = arrived_.find(number);
    return found == arrived_.end() ? std::deque<Arrived>() : std::exchange(found->second, {});
  }

 private:
  struct Sent {
    Bytes bytes;
    Operation operation;
  };
  struct Arriving {
    int number;
    Arrived message;
    Operation operation;
  };
  /// The bytes that operations of the transport read and write until they are over.
  struct Memory {
    std::list<Sent> sent;
    std::optional<Arriving> arriving;
  };

  void progress() {
    std::erase_if(memory_->sent, [this](Sent& sent) { return transport_->test(sent.operation); });
    std::optional<Arriving>& arriving = memory_->arriving;
    while (true) {
      if (!arriving) {
        const auto arrival = transport_->probe();
        if (!arrival) return;
        arriving.emplace(Arriving{.number = arrival->tag,
                                  .message = {.from = arrival->from, .bytes = Bytes(arrival->bytes)},
                                  .operation = {}});
        arriving->operation = transport_->receive(arriving->message.bytes, arrival->from, arrival->tag);
      }
      if (!transport_->test(arriving->operation)) return;
      if (boards_.contains(arriving->number)) arrived_[arriving->number].push_back(std::move(arriving->message));
      arriving.reset();
    }
  }

  std::unique_ptr<Transport> transport_;
  int next_ = 0;
  std::set<int> boards_;  ///< that are open
  std::shared_ptr<Memory> memory_;
  std::map<int, std::deque<Arrived>> arrived_;  ///< by board
};

class MessageBoards::BoardWire final : public DescriptorBoard::Wire {
 public:
  BoardWire(std::shared_ptr<Exchange> exchange, Group& group)
      : exchange_(std::move(exchange)),
        number_(exchange_->open(group)),
        members_(group.members().begin(), group.members().end()) {}
  ~BoardWire() override { exchange_->close(number_); }

  void posted(const Descriptor& asked) override { send(encode({.what = BoardNews::posted, .asked = asked})); }
  void compared(std::uint64_t number) override { send(encode({.what = BoardNews::compared, .number = number})); }
  void found(std::string_view mismatch) override { send(encode({.what = BoardNews::found}, mismatch)); }

  void receive(DescriptorBoard& board) override {
    for (const auto& [from, bytes] : exchange_->take(number_)) {
      const auto found = std::ranges::find(members_, from);
      BoardNews news;
      if (found == members_.end() || bytes.size() < sizeof news) continue;  // no rank of this group has sent it
      const auto member = static_cast<int>(found - members_.begin());
      std::memcpy(&news, bytes.data(), sizeof news);
      switch (news.what) {
        case BoardNews::posted: board.take_posted(member, news.asked); break;
        case BoardNews::compared: board.take_compared(member, news.number); break;
        case BoardNews::found:
          board.take_mismatch({reinterpret_cast<const char*>(bytes.data()) + sizeof news, bytes.size() - sizeof news});
          break;
      }
    }
  }

 private:
  void send(const Bytes& news) {
    for (const int member : members_) {
      if (member != exchange_->rank()) exchange_->send(news, member, number_);
    }
  }

  std::shared_ptr<Exchange> exchange_;
  int number_;
  std::vector<int> members_;
};

MessageBoards::MessageBoards(std::unique_ptr<Transport> transport)
    : exchange_(std::make_shared<Exchange>(std::move(transport))) {}

MessageBoards::~MessageBoards() = default;

std::unique_ptr<DescriptorBoard> MessageBoards::make(Group& group) {
  return DescriptorBoard::make_copy(group, std::make_unique<BoardWire>(exchange_, group));
}

}  // namespace shardproof::fabric::messages

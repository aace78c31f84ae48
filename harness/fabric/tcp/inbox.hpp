// Inbox matches the messages that arrive at a rank with its receives. Messages of one rank with the same tag are
// received in the order in which they were sent. No I/O: TcpTransport moves the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "harness/fabric/messages/transport.hpp"

namespace shardproof::fabric::tcp {

class Inbox {
 public:
  /// `operation`: a number that no other receive has had.
  void receive(std::span<std::byte> room, int from, int tag, std::uint64_t operation);
  /// Throws std::runtime_error while the receive has less room than its message. The message stays until the receive is
  /// cancelled, and then goes to the next one.
  bool is_over(std::uint64_t operation) const;
  /// A receive whose message is arriving goes on.
  void cancel(std::uint64_t operation);
  /// A whole message that no receive has asked for.
  std::optional<messages::Arrival> probe() const;

  // From each rank, one message arrives at a time.

  /// A message begins. Returns the place for its bytes, which is valid until `end` or `lose`.
  std::span<std::byte> begin(int from, int tag, std::size_t bytes);
  /// All bytes of the message are in their place.
  void end(int from);
  /// Nothing more comes from this rank. A message that was arriving is lost. Its receive is over if it was cancelled.
  void lose(int from);

 private:
  struct Receive {
    std::span<std::byte> room;
    int from = 0, tag = 0;
    std::uint64_t operation = 0;
    bool is_cancelled = false;
  };
  struct Message {
    std::vector<std::byte> bytes;
    bool is_whole = false;
  };
  /// The messages and the receives of a rank and a tag. One of both lists is empty, or the first message is not whole,
  /// or it has more bytes than the first receive has room for.
  struct Lane {
    std::deque<Message> messages;
    std::deque<Receive> receives;
  };
  /// The message that arrives from a rank.
  struct Arriving {
    Lane* lane = nullptr;
    std::optional<Receive> receive;  ///< Empty: it is the last one of the lane's messages.
    std::size_t bytes = 0;
  };

  void match(Lane& lane);

  std::map<std::pair<int, int>, Lane> lanes_;  ///< by rank and tag
  std::map<int, Arriving> arriving_;  ///< by rank
  std::unordered_set<std::uint64_t> open_;
  std::map<std::uint64_t, std::string> too_small_;  ///< receives with less room than their message, with the error
};

}  // namespace shardproof::fabric::tcp

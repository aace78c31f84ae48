// Inbox matches the messages that arrive at a rank with its receives. Messages of one rank with the same tag are
// received in the order in which they were sent. No I/O: TcpTransport moves the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
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
  /// cancelled. Then the next receive gets it.
  bool is_over(std::uint64_t operation) const;
  /// Ends the receive without a message. A receive whose message is arriving goes on until the message is whole.
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
  /// The messages and the receives of one rank and one tag. If both lists have entries, the first message is not whole,
  /// or the first receive has too little room for it.
  struct Lane {
    std::list<Message> messages;
    std::list<Receive> receives;
  };
  using Way = std::pair<int, int>;  ///< rank and tag
  using Lanes = std::map<Way, Lane>;
  /// The message that arrives from a rank.
  struct Arriving {
    Way way;
    std::optional<Receive> receive;  ///< Its room takes the bytes. Empty: the lane's last message takes them.
  };

  /// Forgets the lane if nothing is left in it: each group that a rank ever had has its own tag.
  void match(Lanes::iterator lane);

  Lanes lanes_;  ///< with a message or a receive
  std::map<int, Arriving> arriving_;  ///< by rank
  std::unordered_set<std::uint64_t> open_;
  std::map<std::uint64_t, std::string> too_small_;  ///< receives with less room than their message, with the error
};

}  // namespace shardproof::fabric::tcp

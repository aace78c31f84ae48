// Messenger owns a rank's transport, the memory of messages, and the operations that are not over. All groups of the
// rank share it. Operands are copied into its memory and out of it, so no message touches memory of a caller. A call
// may end early while its messages are still on their way.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/fabric/messages/transport.hpp"
#include "harness/fabric/transfer.hpp"

namespace shardproof::fabric::messages {

/// The pause between two looks at the transport. It yields for a short time, because most messages come soon. Then it
/// sleeps, twice as long each time, up to a millisecond.
class PollPause {
 public:
  void once();
  void restart() { turns_ = 0; }
  bool sleeps() const { return turns_ == yields; }

 private:
  static constexpr int yields = 200;
  static constexpr std::chrono::microseconds shortest{20}, longest{1000};
  int turns_ = 0;
  std::chrono::microseconds next_{shortest};
};

class Messenger {
 public:
  /// `is_over`: the world is over, so no rank waits for another one any more.
  Messenger(std::unique_ptr<Transport> transport, std::function<bool()> is_over);
  /// Says farewell to the other ranks, in a bounded time. If all ranks do so, it finishes the transport. Otherwise it
  /// abandons the transport: a rank that is gone could keep a library from finishing forever.
  ~Messenger();
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  const Transport& transport() const { return *transport_; }

  // -- Memory. A call uses it until all its operations are over. ------------------------------------------------------

  /// A slot for each rank of a group. Together they have a fixed size, however large the operands are.
  Slots slots(int group_size) const;
  /// For requests and verdicts: this rank's own message, and a place for a message of each rank of a group.
  std::span<std::byte> outgoing(std::size_t bytes);
  std::span<std::byte> incoming(int rank, std::size_t bytes_each, int group_size);

  // -- Operations -----------------------------------------------------------------------------------------------------

  void send(std::span<const std::byte> bytes, int to, int tag);
  void receive(std::span<std::byte> room, int from, int tag);
  /// Tests all operations once. Returns true if one is over.
  bool advance();
  bool has_operations() const { return !operations_.empty(); }
  /// Ranks of the world whose message or whose reception is missing, ascending.
  std::vector<int> missing() const;

  // -- The end --------------------------------------------------------------------------------------------------------

  /// A call has ended early, so other ranks may have messages on their way that no call will receive. The reason is for
  /// the error of later calls.
  void give_up(std::string_view reason);
  /// Empty: calls are possible.
  const std::string& gave_up() const { return gave_up_; }

  /// The number of the next group. A split takes the greatest number of its ranks, so no two groups of a rank have the
  /// same number.
  int next_number = 2;

 private:
  struct Begun {
    Operation operation;
    int peer;
    bool is_receive;
  };
  using Operations = std::vector<Begun>;

  /// Operations read and write it.
  struct Memory {
    std::unique_ptr<std::byte[]> slots;
    std::vector<std::byte> outgoing, incoming, farewells;
    std::vector<std::byte> dropped;  ///< a message that no call receives
  };

  bool say_farewell();
  void drop_arrivals();
  /// Ends those that are over. Returns true if one is.
  bool test(Operations& operations);
  /// Waits for them and for the operations of calls. Returns false if some of them will not be over.
  bool wait_for(Operations awaited);

  std::unique_ptr<Transport> transport_;
  std::function<bool()> is_over_;
  std::shared_ptr<Memory> memory_;
  Operations operations_;
  std::optional<Operation> dropping_;
  std::string gave_up_;
};

}  // namespace shardproof::fabric::messages

// MessageGroup is a group whose collectives are messages between ranks. A call begins at the first rank of the group.
// It compares the requests of all ranks and sends them its verdict. After that the ranks exchange bytes, and each rank
// reduces in rank order, so results have the same bits as on `shm`.
//
// Every wait looks at the messages, asks the control plane for an abort, and has a deadline. A call that ends early
// leaves messages that other ranks may not take, so no later call of the rank is possible: the world is replaced. An
// abort may release a rank from a call that other ranks have finished.
//
// Waits are in the flight record. A rank that waits for more than a moment searches the records for a deadlock, a few
// milliseconds after it began to wait (ControlPlane::search_deadlock). The next look at the control plane throws it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/fabric/checked_group.hpp"
#include "harness/fabric/messages/messenger.hpp"

namespace shardproof::fabric::messages {

struct MessageContext : RankContext {
  std::string fabric;  ///< the fabric's name, for error texts
  std::shared_ptr<Messenger> messenger;
};

class MessageGroup final : public CheckedGroup {
 public:
  /// `number`: the tag of the group's messages, the same on all members. No two groups of a rank have the same number.
  MessageGroup(std::shared_ptr<const MessageContext> shared, std::string name, std::uint64_t id,
               std::vector<int> members, int number);

  const FabricCapabilities& capabilities() const override;
  std::string why_out_of_reach() const override;
  std::shared_ptr<Group> split(int color, int key, std::string_view name) override;

 private:
  void enter(std::uint32_t epoch) override;
  Receipt exchange(const Request& request, CollectiveKind kind, std::span<const Call> calls) override;

  Receipt exchange_messages(const Request& request, CollectiveKind kind, std::span<const Call> calls);
  /// Compares the request, and with it `parts` of its batch, with the other ranks. Throws Mismatch.
  Verdict compare(const Request& request, std::span<const Call> parts, std::size_t first_of_batch);
  Verdict judge_requests(const Request& request, std::span<const std::byte> mine, std::size_t parts,
                         std::size_t first_of_batch);
  void move_bytes(const Request& request, const Transfer& transfer);
  /// Waits until all messages have been sent and received. `sign`: for the text, what is missing.
  void wait_for_messages(const Request& request, std::string_view sign);
  bool messages_come_by(control::Deadline limit);
  std::string late(const Request& request, std::chrono::nanoseconds waited, std::string_view sign) const;
  [[noreturn]] void refuse_old_message(std::uint32_t epoch) const;

  Messenger& messenger() const { return *messages_->messenger; }
  /// The most requests of a batch in one message.
  std::size_t parts_in_message() const;

  std::shared_ptr<const MessageContext> messages_;
  int number_;
};

}  // namespace shardproof::fabric::messages

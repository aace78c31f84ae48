// A transport of messages between threads of one process. It delays messages by random times, so messages of different
// senders or tags arrive in any order. As in MPI libraries, the send of a long message is over only when it is
// received.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "harness/fabric/messages/transport.hpp"

namespace shardproof::testing {

class Mailboxes {
 public:
  explicit Mailboxes(int size, std::uint64_t seed = 0, int greatest_tag = 32767);
  ~Mailboxes();
  Mailboxes(const Mailboxes&) = delete;
  Mailboxes& operator=(const Mailboxes&) = delete;

  /// The transport of a rank, for one thread. The mailboxes must outlive it.
  std::unique_ptr<fabric::messages::Transport> open(int rank);
  /// After so many more sends, the rank is gone: no message reaches it, and it sends none.
  void drop(int rank, int after_sends = 0);
  /// The number of ranks that have finished in order, after a farewell of all.
  int finished() const;
  /// Sends of long messages that no rank has received.
  std::size_t unfinished_sends() const;
  std::size_t sent() const;  ///< messages, of all ranks
  std::size_t longest() const;  ///< bytes of the longest message

 private:
  struct Shared;
  class Mailbox;
  std::unique_ptr<Shared> shared_;
};

}  // namespace shardproof::testing

// Connection is one TCP connection between two processes of a world. Both prove first that they know the secret. Then
// the connection carries messages. A rank of the fabric `tcp` sends one message, and then uses the socket itself
// (`release`). A connection never blocks: its owner polls the descriptor, and calls `exchange` when the descriptor is
// ready or after `send`.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/control/link/message.hpp"
#include "harness/control/link/proof.hpp"

namespace shardproof::control::link {

class Connection {
 public:
  /// `socket` is connected, or is about to be.
  Connection(base::FileDescriptor socket, Side side, std::string secret);

  int descriptor() const { return socket_.get(); }
  /// Bytes wait until the socket takes them: poll for writing, too.
  bool wants_to_write() const { return !out_.empty() || is_connecting_; }

  /// The other side has proved that it knows the secret.
  bool is_proved() const { return step_ == Step::proved; }
  void send(const Message& message);
  /// Reads and writes what the socket has and takes now. Returns the messages after the proof.
  std::vector<Message> exchange();
  /// The same, but returns the first message only. Later messages wait for the next call.
  std::optional<Message> exchange_one();
  /// Writes what the socket takes now.
  void flush();
  /// After the last message: the other side reads the end of the stream once it has read all messages.
  void end_sending() { ends_sending_ = true; }

  /// For an owner that uses the socket for its own bytes from now on.
  struct Raw {
    base::FileDescriptor socket;
    std::string received;  ///< after the last message
    std::string unsent;  ///< The owner has to send it first.
  };
  Raw release() && { return {std::move(socket_), std::move(in_), std::move(out_)}; }

  /// Why the connection is over. nullopt: it is not over.
  const std::optional<std::string>& over() const { return over_; }

 private:
  enum class Step : std::uint8_t { awaits_challenge, awaits_proof, awaits_welcome, proved };

  bool finish_connecting();
  void read();
  std::vector<Message> exchange_some(std::size_t most);
  void take_frames(std::vector<Message>& messages, std::size_t most);
  void prove_step(const Message& message);
  void queue(const Message& message);
  void end(std::string why);

  base::FileDescriptor socket_;
  std::string secret_;
  Step step_;
  Bytes32 hub_nonce_{}, page_nonce_{};
  bool is_connecting_ = true;
  bool ends_sending_ = false, has_ended_sending_ = false;
  bool saw_end_ = false;
  std::string in_, out_;
  std::optional<std::string> over_;
};

/// Options of each socket: no delay of small messages, and probes of an idle connection.
void set_options(int socket);

}  // namespace shardproof::control::link

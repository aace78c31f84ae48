// Acceptor takes TCP connections from other hosts. It gives its owner each connection whose other side has proved that
// it knows the secret, together with that side's first message. A hub and a rank of the fabric `tcp` have one.
//
// A wrong, silent or slow peer costs only its own connection. A *stranger* is a connection that has proved nothing. If
// there are too many strangers, the address with the most of them loses its oldest one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/link/connection.hpp"
#include "harness/control/link/ready_set.hpp"

namespace shardproof::control::link {

/// The usual bound of connections that have proved nothing, for an acceptor whose peers may start all at once. Each of
/// them tries all addresses of the acceptor.
constexpr std::size_t usual_strangers(int peers) { return 512 + 8 * static_cast<std::size_t>(peers); }

class Acceptor {
 public:
  struct Settings {
    std::string secret;
    /// The most connections that have proved nothing.
    std::size_t most_strangers = usual_strangers(0);
    /// The time for a peer's proof. A slower peer is disconnected. After the proof, no limit holds: a peer that has
    /// been welcomed does not search any more, so without its connection the two sides would never meet.
    std::chrono::nanoseconds proof_limit = std::chrono::seconds(10);
  };

  /// Strangers get at most one of so many descriptors of the process.
  static constexpr int part_of_strangers = 4;

  /// Listens on a free port of all interfaces. Throws std::system_error.
  explicit Acceptor(Settings settings);

  /// How other hosts reach it: see addresses.hpp.
  std::string addresses() const;

  // For a poll loop: call `handle_events` when the descriptor is readable, and at the deadline.
  int descriptor() const { return ready_.descriptor(); }
  std::optional<Deadline> deadline() const;
  void handle_events();

  /// A connection, which the acceptor no longer reads, and the first message on it. More bytes may have come. The
  /// socket does not announce them again: call `Connection::exchange` or `Connection::release` next.
  struct Arrival {
    Connection connection;
    Message first;
  };
  /// The connections that have come since the last call.
  std::vector<Arrival> take_arrivals() { return std::exchange(arrivals_, {}); }
  /// Drops the oldest stranger of the address that has the most strangers. False: there is no stranger. For an owner
  /// that needs a descriptor.
  bool drop_stranger();

 private:
  struct Peer {
    Connection connection;
    std::string address;  ///< without the port
    Deadline limit;  ///< for the proof
    bool is_stranger() const { return !connection.is_proved(); }
  };

  void accept(Deadline now);
  void serve(std::uint64_t id);
  std::size_t most_strangers() const;
  std::size_t strangers() const;

  Settings settings_;
  base::FileDescriptor listener_;
  ReadySet ready_;
  std::map<std::uint64_t, Peer> peers_;
  std::vector<Arrival> arrivals_;
  std::uint64_t last_id_ = 0;
  std::optional<Deadline> accept_again_;  ///< The process has no free descriptor.
};

}  // namespace shardproof::control::link

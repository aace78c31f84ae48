// Hub is the one process of a world that all control pages are connected to: a listening socket, its connections, and
// the HubCore that decides. Guards of ranks connect to it, too: it gives their connections to the launcher, its owner.
// A wrong, silent or slow peer costs only its own connection. Connections that have proved nothing are bounded. Where
// there are too many, the address with the most of them loses its oldest one.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/link/connection.hpp"
#include "harness/control/link/hub_core.hpp"
#include "harness/control/link/ready_set.hpp"

namespace shardproof::control::link {

class Hub {
 public:
  struct Settings {
    HubCore::Settings core;
    std::string secret;
    /// A peer that has not proved the secret and said Hello by then is disconnected.
    std::chrono::nanoseconds proof_limit = std::chrono::seconds(10);
  };

  /// Connections that have proved nothing get this part of the descriptors of the process.
  static constexpr int part_of_strangers = 4;

  /// Listens on a free port of all interfaces. Throws std::system_error.
  explicit Hub(Settings settings);

  /// For PageLink::Settings::addresses: see addresses.hpp.
  std::string addresses() const;

  // For a poll loop: call `handle_events` when the descriptor is readable, and at the deadline.
  int descriptor() const { return ready_.descriptor(); }
  std::optional<Deadline> deadline() const;
  void handle_events();

  /// A connection of a guard, which began with a Note. The hub no longer reads it.
  struct Guest {
    Connection connection;
    std::vector<Message> received;
  };
  /// The guests that have come since the last call.
  std::vector<Guest> take_guests() { return std::exchange(guests_, {}); }

  const HubCore& core() const { return core_; }

 private:
  struct Peer {
    Connection connection;
    std::string address;  ///< without the port
    Deadline limit;  ///< of the proof, or of the end
    bool has_joined = false, is_leaving = false;
    bool is_stranger() const { return !connection.is_proved(); }
  };

  void accept(Deadline now);
  void serve(LinkId id, Deadline now);
  void take(const Sends& sends, Deadline now);
  void watch(LinkId id, const Connection& connection);
  void drop_late(Deadline now);
  std::size_t most_strangers() const;
  std::size_t strangers() const;
  bool drop_stranger();

  Settings settings_;
  HubCore core_;
  base::FileDescriptor listener_;
  ReadySet ready_;
  std::map<LinkId, Peer> peers_;
  std::vector<Guest> guests_;
  LinkId last_id_ = 0;
  std::optional<Deadline> accept_again_;  ///< The process has no free descriptor.
};

}  // namespace shardproof::control::link

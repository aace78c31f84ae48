// Hub connects all control pages of a world. It owns their connections, and the HubCore that decides. Guards of ranks
// connect to it, too: the hub gives their connections to its owner, the launcher.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/control/link/acceptor.hpp"
#include "harness/control/link/connection.hpp"
#include "harness/control/link/hub_core.hpp"
#include "harness/control/link/ready_set.hpp"

namespace shardproof::control::link {

class Hub {
 public:
  struct Settings {
    HubCore::Settings core;
    std::string secret;
    /// The time for a peer's proof. A slower peer is disconnected.
    std::chrono::nanoseconds proof_limit = std::chrono::seconds(10);
  };

  /// Listens on a free port of all interfaces. Throws std::system_error.
  explicit Hub(const Settings& settings);

  /// For PageLink::Settings::addresses: see addresses.hpp.
  std::string addresses() const { return acceptor_.addresses(); }

  // For a poll loop: call `handle_events` when the descriptor is readable, and at the deadline.
  int descriptor() const { return ready_.descriptor(); }
  std::optional<Deadline> deadline() const;
  void handle_events();

  /// The connections of guards that have come since the last call. The first message of each is a Note. The hub no
  /// longer reads them.
  std::vector<Acceptor::Arrival> take_guests() { return std::exchange(guests_, {}); }

  const HubCore& core() const { return core_; }

 private:
  struct Peer {
    Connection connection;
    bool is_leaving = false;
    Deadline limit{};  ///< of a peer that is leaving
  };

  void receive(Acceptor::Arrival arrival, Deadline now);
  void serve(LinkId id, Deadline now);
  void take(const Sends& sends, Deadline now);
  void watch(LinkId id, const Connection& connection);

  HubCore core_;
  Acceptor acceptor_;
  ReadySet ready_;
  std::map<LinkId, Peer> peers_;
  std::vector<Acceptor::Arrival> guests_;
  LinkId last_id_ = 0;
};

}  // namespace shardproof::control::link

// HubSearch connects to the hub of a world, or to another process with an Acceptor. It tries all addresses of that
// process at once, because some of them may lead nowhere. An address that fails is tried again. HubSearch keeps the
// first connection on which both sides have proved the secret. Pages, guards and ranks of the fabric `tcp` have one at
// their start.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/control/link/addresses.hpp"
#include "harness/control/link/connection.hpp"
#include "harness/control/link/ready_set.hpp"

namespace shardproof::control::link {

class HubSearch {
 public:
  /// Adds its descriptors to `ready`, which must outlive this object. Throws std::invalid_argument for addresses that
  /// are not valid.
  HubSearch(std::string_view addresses, std::string secret, Deadline until, ReadySet& ready, std::uint64_t key);

  /// Returns the connection to the hub once. Call it when a descriptor is ready, and at the deadline.
  std::optional<Connection> advance(Deadline now);
  Deadline deadline() const;
  /// The time is over.
  bool has_failed(Deadline now) const { return now >= until_; }
  /// True if an address accepts connections. Its process may still give no proof, for example while it is stopped.
  bool has_reached() const;
  /// The answer of each address: `10.0.0.1:4000: Connection refused; [fd00::1]:4000: no answer`.
  std::string answers() const;

 private:
  struct Attempt {
    Address address;
    std::optional<Connection> connection;
    std::string why;  ///< why it failed; empty: it has not
    Deadline next{};  ///< when it is tried again
  };

  void begin(Attempt& attempt, Deadline now);

  const std::string secret_;
  const Deadline until_;
  ReadySet& ready_;
  const std::uint64_t key_;
  std::vector<Attempt> attempts_;
};

}  // namespace shardproof::control::link

// TcpTransport carries messages over TCP connections, one for each pair of ranks. It needs no MPI: ranks find each
// other in the file store of their world. Each rank publishes its addresses and a secret there, and connects to all
// ranks before it. Both sides of a connection prove that they know the secret. The messages after that are not
// protected: a machine that can change packets on their way can change them.
//
// A lost connection is no error by itself. Its operations do not end, and the control plane decides: it ends the world
// of a rank that has died.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "harness/control/link/acceptor.hpp"
#include "harness/control/link/hub_search.hpp"
#include "harness/control/link/ready_set.hpp"
#include "harness/fabric/messages/transport.hpp"
#include "harness/fabric/tcp/byte_stream.hpp"
#include "harness/fabric/tcp/inbox.hpp"
#include "harness/rendezvous/file_store.hpp"

namespace shardproof::fabric::tcp {

class TcpTransport final : public messages::Transport {
 public:
  /// Publishes this rank's addresses in the store. All ranks of the world make a transport, with the same prefix of
  /// keys in `store`. Throws std::system_error and what FileStore::put throws. Throws
  /// std::runtime_error if the limit of open files is too low, or if no network interface is up.
  TcpTransport(rendezvous::FileStore store, int rank, int size);

  std::string_view name() const override { return "TCP"; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  int greatest_tag() const override;

  messages::Operation send(std::span<const std::byte> bytes, int to, int tag) override;
  messages::Operation receive(std::span<std::byte> room, int from, int tag) override;
  bool test(messages::Operation& operation) override;
  void cancel(messages::Operation& receive) override { inbox_.cancel(receive.value); }
  std::optional<messages::Arrival> probe() override;
  bool is_lost(int rank) const override { return !peer(rank).lost.empty(); }
  bool is_out_of_reach(int rank) const override { return peer(rank).search && !peer(rank).search->has_reached(); }
  std::string trouble(int rank) const override;

  // No function reads or writes after the end, and the destructor closes the connections.
  void finish() override {}
  /// No operation touches the memory outside of a call.
  void abandon(std::shared_ptr<void>) override {}

 private:
  /// Each message begins with it.
  struct Header {
    std::int32_t tag = 0;
    std::uint32_t unused = 0;  ///< in place of padding, which has no value
    std::uint64_t bytes = 0;  ///< that follow
  };
  struct Send {
    Header header;
    std::span<const std::byte> bytes;
    std::uint64_t operation = 0;
    std::size_t sent = 0;  ///< of header and bytes
  };
  struct Peer {
    std::optional<control::link::HubSearch> search;
    std::optional<ByteStream> stream;
    bool was_connected = false;
    bool is_watched_for_writing = false;
    std::string lost;  ///< Why the connection is over. Empty: it is not.
    std::deque<Send> sends;
    Header header;  ///< of the arriving message
    std::size_t header_bytes = 0;  ///< that have arrived
    std::span<std::byte> room;  ///< for the rest of the message
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  static std::string key_of(int rank);

  void progress();
  void connect_more();
  std::optional<std::string> look_up(int rank) const;
  /// Searches for each rank whose addresses are in the store now.
  void begin_searches(control::Deadline now);
  void search_for(int rank, control::Deadline now);
  void accept_arrivals();
  void use(int rank, control::link::Connection connection);
  void serve(int rank);
  void read(int rank);
  void flush(int rank);
  void lose(int rank, std::string why);

  rendezvous::FileStore store_;
  int rank_;
  control::link::ReadySet ready_;
  std::vector<Peer> peers_;
  std::optional<control::link::Acceptor> acceptor_;  ///< until all ranks are connected
  int unconnected_;  ///< ranks without a connection
  control::Deadline next_look_{};  ///< into the store
  Inbox inbox_;
  std::unordered_set<std::uint64_t> sending_;
  std::uint64_t last_operation_ = 0;
};

}  // namespace shardproof::fabric::tcp

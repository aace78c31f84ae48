// HubCore decides for the pages of several hosts what happens in which order: agreements, aborts, the end of the world,
// and a deadlock. Pages propose, and only the hub issues Decided, Aborted and Doomed. Each connection keeps the order
// of its messages, so all pages see the same causes and the same ballots.
//
// Pure: it has no I/O, and its caller gives it the time. Hub (hub.hpp) connects it to sockets.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/control/link/message.hpp"

namespace shardproof::control::link {

/// A number of its own for each connection, never reused.
using LinkId = std::uint64_t;

struct Send {
  LinkId to = 0;
  Message message;
};

/// The caller sends the messages in their order. Then it closes the links.
struct Sends {
  std::vector<Send> messages;
  std::vector<LinkId> closed;  ///< The core has forgotten them. The caller does not report that they were lost.
};

class HubCore {
 public:
  struct Settings {
    int world_size = 1;
    /// A page whose host sends nothing for so long is lost. A page answers a ping four times in that time, and every
    /// 2 s. Where ranks share cores, use a multiple of the default: 10 s for each rank of a core.
    std::chrono::nanoseconds silence_limit = std::chrono::seconds(10);
    /// The first pause between two searches for a deadlock. It doubles with each search that finds none.
    std::chrono::nanoseconds probe_pause = std::chrono::milliseconds(100);
  };

  explicit HubCore(const Settings& settings);

  Sends connected(LinkId link, const Hello& hello, Deadline now);
  Sends received(LinkId link, const Message& message, Deadline now);
  /// The connection ended. It is in order when all ranks of the page have ended.
  Sends lost(LinkId link, std::string_view why, Deadline now);
  Sends time_passed(Deadline now);
  /// When to call `time_passed`. nullopt: no page is connected.
  std::optional<Deadline> deadline() const;

  /// Ranks without a page.
  std::vector<int> missing() const;
  bool has_started() const { return started_; }
  /// Every rank has ended, or its host was lost.
  bool all_ended() const { return gone_.size() == static_cast<std::size_t>(settings_.world_size); }
  const std::optional<Abort>& doomed() const { return doom_; }

 private:
  struct Link {
    Hello hello;
    Deadline heard, next_ping, ping_sent;
    std::uint64_t pings = 0;
    bool awaits_pong = false;
    int clock_samples = 0;
    std::chrono::nanoseconds least_round_trip = std::chrono::nanoseconds::max();
    std::int64_t clock_offset_ns = 0;
    std::uint64_t voted = 0;  ///< the last round with votes of this page
    bool waits = false;  ///< said so, and no probe has shown otherwise
  };
  /// A search for a deadlock: all pages are asked twice, and the second time only after all first answers. Records that
  /// are equal both times are true at one moment between.
  struct Search {
    std::uint64_t number;
    bool is_second;
    std::set<LinkId> unanswered;
    std::vector<protocol::FlightRecord> first, records;  ///< by rank
  };

  void handle(LinkId id, Link& link, const Votes& votes);
  void handle(LinkId id, Link& link, const AbortRaised& raised);
  void handle(LinkId id, Link& link, const DoomRaised& raised);
  void handle(LinkId id, Link& link, const Pong& pong);
  void handle(LinkId id, Link& link, const ProgressOf& progress);
  void handle(LinkId id, Link& link, const Ended& ended);
  void handle(LinkId id, Link& link, const Waits& waits);
  void handle(LinkId id, Link& link, const ProbeReply& reply);
  void handle(LinkId id, Link& link, const FlightWanted& wanted);
  void handle(LinkId id, Link& link, const Flight& flight);
  template <class Other>
  void handle(LinkId id, Link& link, const Other& other);

  void send(LinkId to, Message message) { sends_.messages.push_back({to, std::move(message)}); }
  void send_all(const Message& message);
  /// To the pages that watch, but not to the one that the message comes from.
  void send_watchers(LinkId from, const Message& message);
  void require(bool holds, std::string_view what) const;
  bool owns(const Link& link, int rank) const;
  Deadline silent_at(const Link& link) const;
  void ping(LinkId id, Link& link);
  void drop(LinkId id, std::string_view why, bool is_silent = false);
  void doom(const Abort& abort);
  void abort(std::uint32_t epoch, const Abort& abort);
  void start_when_complete();
  void rank_gone(int rank);
  void decide_when_complete();

  bool may_search() const;
  void begin_probe(bool is_second);
  void search_when_due();
  void end_search();
  void judge();
  Sends take();

  Settings settings_;
  std::map<LinkId, Link> links_;
  std::vector<std::optional<LinkId>> owner_;  ///< of each rank
  std::set<int> gone_;  ///< ended, or lost with their host
  bool started_ = false;
  std::uint64_t decided_ = 0;
  std::vector<Ballot> ballots_;  ///< of the round that is not decided yet
  std::optional<std::uint32_t> aborted_;  ///< the last aborted epoch
  std::optional<Abort> doom_;
  std::optional<Search> search_;
  std::uint64_t probes_ = 0;
  Deadline next_search_{};
  std::chrono::nanoseconds search_pause_;

  // Only during a call.
  Deadline now_{};
  Sends sends_;
};

}  // namespace shardproof::control::link

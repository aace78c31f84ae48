// PageSide keeps the control page of one host in step with its hub. It reads from the page what the ranks of this host
// report, and gives the page what the hub decides. It has no sockets: PageLink (page_link.hpp) connects it to them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/control/link/message.hpp"

namespace shardproof::control::link {

class PageSide {
 public:
  /// Marks all other ranks of the page as remote. No rank may have started. The page must outlive this object.
  PageSide(ControlPage& page, Hello hello);

  const Hello& hello() const { return hello_; }

  /// Returns the page's new reports. Call it after each ring of the page's watcher, and at the deadline.
  std::vector<Message> news(Deadline now);
  std::optional<Deadline> deadline() const;

  /// Applies a message of the hub to the page, and returns the answers. Throws BadMessage for one that no hub sends.
  std::vector<Message> apply(Message message, Deadline now);

  /// The connection to the hub has ended before the world. The page decides by itself that its world is over. Two hosts
  /// may then show different reasons.
  void hub_lost(const std::string& why);

  // -- What the hub has said ------------------------------------------------------------------------------------------

  /// Once all ranks have a page.
  const std::optional<Start>& start() const { return start_; }
  bool all_ended() const { return all_ended_; }
  const std::vector<HostLost>& lost_hosts() const { return lost_hosts_; }
  /// The hub's last message. A text is the reason why it refuses this page.
  const std::optional<Bye>& goodbye() const { return goodbye_; }
  /// The flight records of all ranks, in rank order. Those of remote ranks are the last ones that arrived.
  std::vector<protocol::FlightRecord> flight_records() const;
  /// Asks for the records of the remote ranks that live. Send the result to the hub. The last record of a rank arrives
  /// before its end.
  FlightWanted want_flights();
  /// Whether a record that `want_flights` asked for has not arrived, and can still arrive.
  bool awaits_flights() const { return !awaited_flights_.empty(); }

 private:
  struct Local {
    Progress reported;
    bool has_ended = false;
  };

  template <class Other>
  void handle(const Other& other);
  void handle(Start& start);
  void handle(const Ping& ping);
  void handle(const Decided& decided);
  void handle(const Aborted& aborted);
  void handle(const Doomed& doomed);
  void handle(const ProgressOf& progress);
  void handle(const Ended& ended);
  void handle(const AllEnded& all);
  void handle(HostLost& host);
  void handle(const Probe& probe);
  void handle(const FlightWanted& wanted);
  void handle(Flight& flight);
  void handle(Bye& bye);

  bool is_remote(int rank) const;
  std::optional<Votes> votes() const;
  /// Whether all ranks of this host wait, except the ones that have left. A rank that died does not wait.
  bool all_wait() const;
  /// Changes with each step of a rank of this host.
  std::uint64_t steps() const;
  void look_for_waits(Deadline now);
  void send_flights(std::uint64_t probe);

  ControlPage& page_;
  const Hello hello_;
  std::map<int, Local> locals_;
  std::uint64_t voted_ = 0;  ///< the last round whose votes were sent
  std::optional<std::uint32_t> aborted_;  ///< the last epoch whose abort was sent, or came from the hub
  bool has_proposed_doom_ = false;
  Deadline next_look_{};
  std::optional<std::uint64_t> waiting_at_;  ///< the steps at the last look, if all ranks waited then
  std::optional<std::uint64_t> waits_sent_;  ///< the steps at the last Waits

  std::optional<Start> start_;
  bool all_ended_ = false;
  std::vector<HostLost> lost_hosts_;
  std::optional<Bye> goodbye_;
  std::vector<protocol::FlightRecord> flights_;
  std::set<int> awaited_flights_;  ///< of these ranks

  std::vector<Message> out_;  ///< only during a call
  Deadline now_{};
};

}  // namespace shardproof::control::link

// PageLink connects the control page of one host to the hub of its world. One process of each host has one: the guard
// that made the page, or the launcher. Ranks do not know of it.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "harness/control/control_page.hpp"
#include "harness/control/link/connection.hpp"
#include "harness/control/link/hub_search.hpp"
#include "harness/control/link/page_side.hpp"
#include "harness/control/link/ready_set.hpp"
#include "harness/control/page_watch.hpp"

namespace shardproof::control::link {

class PageLink {
 public:
  struct Settings {
    std::string addresses;  ///< of the hub: `Hub::addresses`
    std::string secret;
    Hello hello;
    /// The time to find the hub. After it, the hub counts as lost.
    std::chrono::nanoseconds join_limit = std::chrono::seconds(30);
    /// A hub that sends nothing for so long is lost. It should be the hub's own limit: the hub sends a ping four times
    /// in that time.
    std::chrono::nanoseconds silence_limit = std::chrono::seconds(10);
  };

  /// No rank of the page may have started, and the page must outlive this object. Throws std::invalid_argument for
  /// addresses that are not valid, and std::system_error.
  PageLink(ControlPage& page, Settings settings);

  // For a poll loop: call `handle_events` when the descriptor is readable, and at the deadline.
  int descriptor() const { return ready_.descriptor(); }
  std::optional<Deadline> deadline() const;
  void handle_events();

  /// Has the hub's messages: the start, lost hosts, flight records, and that all ranks have ended.
  PageSide& side() { return side_; }
  /// For FlightWanted.
  void send(const Message& message);

  bool is_over() const { return is_over_; }
  /// Why the world was lost for this page, or why it could not join. The page is doomed then.
  const std::optional<std::string>& lost() const { return lost_; }

 private:
  void join(Deadline now);
  void exchange(Deadline now);
  void report_news(Deadline now);
  void lose(const std::string& why);
  void end();

  const Settings settings_;
  PageSide side_;
  ReadySet ready_;
  PageWatch watch_;
  std::optional<HubSearch> search_;  ///< until the hub is found
  std::optional<Connection> hub_;
  Deadline heard_{};
  bool is_over_ = false;
  std::optional<std::string> lost_;
};

}  // namespace shardproof::control::link

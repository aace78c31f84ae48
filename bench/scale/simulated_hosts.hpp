// A world on many hosts in one process: the HubCore and the PageSide of each host, without sockets. Each message is
// counted with the bytes that a connection would send.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/control/link/hub_core.hpp"
#include "harness/control/link/page_side.hpp"

namespace shardproof::bench {

struct Traffic {
  std::uint64_t to_hub = 0, from_hub = 0;              ///< messages
  std::uint64_t bytes_to_hub = 0, bytes_from_hub = 0;  ///< with their frames
  double hub_ms = 0;                                   ///< The hub decides, and writes its messages.
};

/// Each function does one step of the world, and returns its messages. No simulated time passes in a step, so no
/// message is sent because a step takes long.
class SimulatedHosts {
 public:
  /// At least two hosts. Each host has as many ranks. One more page has no ranks, and watches: the launcher's.
  SimulatedHosts(int hosts, int ranks_of_each);

  int size() const { return hosts_ * ranks_of_each_; }

  /// The first step.
  Traffic join();
  Traffic agree();
  /// The agreements at both ends of a case, and the progress of all ranks.
  Traffic run_case();
  /// All ranks wait: on the first host in a call, on the other hosts for the end of a case. The hub finds a deadlock.
  Traffic find_deadlock();

  // One of these is the last step.
  /// A rank gives up, so the world ends early.
  Traffic doom();
  /// All ranks leave in order, and end.
  Traffic end();

 private:
  struct Host {
    Host(int world_size, const std::string& name, const std::vector<int>& of_host);
    std::vector<int> ranks;
    control::ControlPage page;
    control::link::PageSide side;
  };

  template <class Action>
  void each_rank(const Action& action);
  void to_hub(control::link::LinkId link, const control::link::Message& message);
  void deliver(const control::link::Sends& sends);
  /// Pages report their news, and all messages arrive.
  void exchange();
  void agree_once();
  Traffic take();

  int hosts_, ranks_of_each_;
  control::link::HubCore core_;
  std::vector<std::unique_ptr<Host>> pages_;  ///< The last one is the launcher's.
  std::deque<std::pair<control::link::LinkId, control::link::Message>> pending_;
  control::Deadline now_;
  std::uint32_t case_ = 0;
  Traffic traffic_;
};

}  // namespace shardproof::bench

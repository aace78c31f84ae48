// HostLead is what the lead guard of a host (guard.hpp) keeps for all ranks of its host. It has the directory in which
// they meet, their control page, and the page's connection to the hub of the world. The directory is removed with this
// object, so the lead guard is the last guard of its host that ends.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "harness/control/link/page_link.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/run/meeting_place.hpp"

namespace shardproof::launcher {

class HostLead {
 public:
  /// How to reach the hub.
  struct Contact {
    std::string addresses;
    std::string key;
  };

  /// The time after which a silent launcher counts as lost. It is long, because a user may stop the launcher for a
  /// while. A launcher that ends closes its connection.
  static constexpr std::chrono::seconds launcher_silence{30};

  /// Also writes the plan of the host. A line on standard error says that its memory has no room. Throws
  /// std::system_error, or CommandError if the plan cannot be written or no file system has room.
  HostLead(protocol::WorldPlan plan, const protocol::WorldDirectory& directory, const Contact& contact,
           const std::string& host, const std::vector<int>& ranks);

  const std::filesystem::path& rendezvous() const { return place_.directory.path(); }
  control::link::PageLink& link() { return link_; }

 private:
  MeetingPlace place_;  ///< destroyed last
  control::link::PageLink link_;
};

}  // namespace shardproof::launcher

// MeetingPlace is where the ranks of a world meet on one host: all files that exist before the first rank. The launcher
// makes it for ranks of its own host, and a lead guard (host_lead.hpp) for those of another host.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "harness/control/control_page.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"

namespace shardproof::launcher {

struct MeetingPlace {
  rendezvous::RendezvousDirectory directory;
  control::ControlPage page;
};

/// In memory, or on the disk where the plan says so or the memory has no room. Sets `rendezvous` of the plan, and
/// `on_disk`. `print` gets a line if the memory has no room. Empty: ignored. Throws std::system_error, or CommandError
/// if the disk has no room either.
MeetingPlace make_meeting_place(protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                                const std::function<void(const std::string&)>& print);

/// Says that a world is tried again on the disk, and why.
std::string on_disk_text(const protocol::WorldDirectory& directory, std::string_view why);

}  // namespace shardproof::launcher

#include "launcher/run/meeting_place.hpp"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "harness/base/no_room.hpp"
#include "harness/rendezvous/file_store.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {

using rendezvous::RendezvousDirectory;

namespace {

MeetingPlace make_in(RendezvousDirectory directory, protocol::WorldPlan& plan) {
  plan.rendezvous = directory.path();
  control::ControlPage page = control::ControlPage::create(plan.rendezvous / "control", plan.size, plan.nonce);
  rendezvous::FileStore(plan.meeting_store(), plan.nonce, -1);  // makes its directories
  return {.directory = std::move(directory), .page = std::move(page)};
}

}  // namespace

MeetingPlace make_meeting_place(protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                                const std::function<void(const std::string&)>& print) {
  try {
    if (!plan.on_disk) return make_in(RendezvousDirectory::make(plan.size), plan);
  } catch (const std::system_error& error) {
    if (!base::means_no_room(error.code())) throw;
    plan.on_disk = true;
    if (print) print(on_disk_text(directory, error.what()));
  }
  try {
    return make_in(RendezvousDirectory::make_in(directory.root), plan);
  } catch (const std::system_error& error) {
    throw CommandError(infrastructure,
                       fmt::format("world {}: no space for shared memory, and none in {} either ({}): free space, then "
                                   "run again",
                                   directory.root.filename().string(), directory.root.string(), error.what()));
  }
}

std::string on_disk_text(const protocol::WorldDirectory& directory, std::string_view why) {
  return fmt::format("world {}: {}. Trying again with its shared memory in {}", directory.root.filename().string(), why,
                     directory.root.string());
}

}  // namespace shardproof::launcher

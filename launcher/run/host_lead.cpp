#include "launcher/run/host_lead.hpp"

#include <nlohmann/json.hpp>

#include "harness/base/json_text.hpp"
#include "launcher/files/output.hpp"

namespace shardproof::launcher {

using rendezvous::RendezvousDirectory;

HostLead::HostLead(protocol::WorldPlan plan, const protocol::WorldDirectory& directory, const Contact& contact,
                   const std::string& host, const std::vector<int>& ranks)
    : rendezvous_(RendezvousDirectory::make(plan.size)),
      page_(control::ControlPage::create(rendezvous_.path() / "control", plan.size, plan.nonce)),
      link_(page_, {.addresses = contact.addresses,
                    .secret = contact.key,
                    .hello = {.world_size = plan.size, .host = host, .ranks = ranks},
                    .silence_limit = launcher_silence}) {
  plan.rendezvous = rendezvous_.path();
  plan.store = directory.store();
  write_own_file(directory.host_plan(ranks.front()), base::dump_line(plan) + "\n", 2);
}

}  // namespace shardproof::launcher

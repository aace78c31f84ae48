#include "launcher/run/host_lead.hpp"

#include <nlohmann/json.hpp>

#include "harness/base/json_text.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/standard_streams.hpp"

namespace shardproof::launcher {

namespace {

protocol::WorldPlan& with_shared_store(protocol::WorldPlan& plan, const protocol::WorldDirectory& directory) {
  plan.store = directory.store();
  return plan;
}

}  // namespace

HostLead::HostLead(protocol::WorldPlan plan, const protocol::WorldDirectory& directory, const Contact& contact,
                   const std::string& host, const std::vector<int>& ranks)
    : place_(make_meeting_place(with_shared_store(plan, directory), directory, print_error)),
      link_(place_.page, {.addresses = contact.addresses,
                          .secret = contact.key,
                          .hello = {.world_size = plan.size, .host = host, .ranks = ranks},
                          .silence_limit = launcher_silence}) {
  write_own_file(directory.host_plan(ranks.front()), base::dump_line(plan) + "\n", 2);
}

}  // namespace shardproof::launcher

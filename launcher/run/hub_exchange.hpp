// In a world of several hosts, the launcher owns the hub and a page that watches all ranks (foreign_ranks.hpp).
// `exchange_until` lets the two work while the launcher waits for an answer of other hosts.
#pragma once

#include <functional>

#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/control/link/hub.hpp"
#include "harness/control/link/page_link.hpp"

namespace shardproof::launcher {

/// Returns as soon as `is_done` holds, the page has lost the hub, or `limit` has passed. Events of other descriptors
/// wait meanwhile, so `limit` should be near.
void exchange_until(control::link::Hub& hub, control::link::PageLink& page_link, const std::function<bool()>& is_done,
                    control::Deadline limit);

}  // namespace shardproof::launcher

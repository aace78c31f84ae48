#include "launcher/run/hub_exchange.hpp"

#include <algorithm>
#include <chrono>

#include "launcher/process/poller.hpp"

namespace shardproof::launcher {

void exchange_until(control::link::Hub& hub, control::link::PageLink& page_link, const std::function<bool()>& is_done,
                    control::Deadline limit) {
  Poller both;
  both.add(hub.descriptor(), 0);
  both.add(page_link.descriptor(), 0);
  while (true) {
    hub.handle_events();
    page_link.handle_events();
    // The answer may have come with these events: then no other event follows.
    if (is_done() || page_link.is_over() || std::chrono::steady_clock::now() >= limit) return;
    both.wait(std::min({limit, hub.deadline().value_or(limit), page_link.deadline().value_or(limit)}));
  }
}

}  // namespace shardproof::launcher

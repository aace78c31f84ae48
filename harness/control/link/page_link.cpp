#include "harness/control/link/page_link.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace shardproof::control::link {

namespace {

constexpr std::uint64_t any_key = 0;  // a link has few descriptors, and looks at all of them each time

}  // namespace

PageLink::PageLink(ControlPage& page, Settings settings)
    : settings_(std::move(settings)),
      side_(page, settings_.hello),
      watch_(page.watcher()),
      search_(std::in_place, settings_.addresses, settings_.secret,
              std::chrono::steady_clock::now() + settings_.join_limit, ready_, any_key) {
  ready_.add(watch_.descriptor(), any_key);
  join(std::chrono::steady_clock::now());
}

std::optional<Deadline> PageLink::deadline() const {
  if (is_over_) return std::nullopt;
  if (search_) return search_->deadline();
  const Deadline silent = heard_ + settings_.silence_limit;
  const auto side = side_.deadline();
  return side ? std::min(*side, silent) : silent;
}

void PageLink::handle_events() {
  if (is_over_) return watch_.clear();
  const Deadline now = std::chrono::steady_clock::now();
  if (search_) join(now);
  if (!hub_) {
    watch_.clear();  // `report_news` reads the whole page once the hub is found
    return;
  }
  exchange(now);
  if (is_over_) return;
  report_news(now);
  if (now >= heard_ + settings_.silence_limit) {
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(settings_.silence_limit);
    return lose(fmt::format("it sent nothing for {} ms", limit.count()));
  }
  ready_.watch(hub_->descriptor(), any_key, true, hub_->wants_to_write());
}

// -- Joining ----------------------------------------------------------------------------------------------------------

void PageLink::join(Deadline now) {
  hub_ = search_->advance(now);
  if (hub_) {
    search_.reset();
    heard_ = now;
    hub_->send(settings_.hello);
  } else if (search_->has_failed(now)) {
    lose("it cannot be reached: " + search_->answers());
  }
}

// -- Joined -----------------------------------------------------------------------------------------------------------

void PageLink::exchange(Deadline now) {
  std::vector<Message> messages = hub_->exchange();
  if (!messages.empty()) heard_ = now;
  try {
    for (Message& message : messages) {
      for (const Message& answer : side_.apply(std::move(message), now)) hub_->send(answer);
    }
  } catch (const BadMessage& bad) {
    return lose(bad.what());
  }
  if (const auto& bye = side_.goodbye()) return lose("it refuses this host: " + bye->why);
  if (const auto& over = hub_->over()) lose(*over);
}

void PageLink::report_news(Deadline now) {
  watch_.clear();
  for (const Message& message : side_.news(now)) hub_->send(message);
  hub_->flush();
}

void PageLink::send(const Message& message) {
  if (!hub_) return;
  hub_->send(message);
  hub_->flush();
}

void PageLink::lose(const std::string& why) {
  lost_ = "the hub of this world was lost: " + why;
  side_.hub_lost(*lost_);
  end();
}

void PageLink::end() {
  is_over_ = true;
  hub_.reset();
  search_.reset();
}

}  // namespace shardproof::control::link

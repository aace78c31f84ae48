#include "harness/control/link/page_link.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

namespace shardproof::control::link {

namespace {

constexpr std::chrono::milliseconds between_attempts{200};
constexpr std::uint64_t any_key = 0;  // a link has few descriptors, and looks at all of them each time

}  // namespace

PageLink::PageLink(ControlPage& page, Settings settings)
    : settings_(std::move(settings)),
      side_(page, settings_.hello),
      watch_(page.watcher()),
      join_until_(std::chrono::steady_clock::now() + settings_.join_limit) {
  for (const Address& address : parse_addresses(settings_.addresses))
    attempts_.push_back({.address = address, .connection = std::nullopt, .why = {}});
  ready_.add(watch_.descriptor(), any_key);
  begin_attempts(std::chrono::steady_clock::now());
}

std::optional<Deadline> PageLink::deadline() const {
  if (is_over_) return std::nullopt;
  if (!hub_) return attempt_again_ ? std::min(*attempt_again_, join_until_) : join_until_;
  const Deadline silent = heard_ + settings_.silence_limit;
  const auto side = side_.deadline();
  return side ? std::min(*side, silent) : silent;
}

void PageLink::handle_events() {
  if (is_over_) return watch_.clear();
  const Deadline now = std::chrono::steady_clock::now();
  if (!hub_) try_to_join(now);
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

/// All addresses at once: some of them may lead nowhere, and a packet to nowhere has no answer.
void PageLink::begin_attempts(Deadline now) {
  attempt_again_.reset();
  for (Attempt& attempt : attempts_) {
    base::FileDescriptor socket(
        ::socket(attempt.address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const auto* const address = reinterpret_cast<const sockaddr*>(&attempt.address.bytes);
    if (!socket || (::connect(socket.get(), address, attempt.address.length) != 0 && errno != EINPROGRESS)) {
      attempt.why = std::generic_category().message(errno);
      continue;
    }
    ready_.add(socket.get(), any_key);
    ready_.watch(socket.get(), any_key, true, true);
    attempt.connection.emplace(std::move(socket), Side::page, settings_.secret);
  }
  try_to_join(now);
}

void PageLink::try_to_join(Deadline now) {
  if (attempt_again_ && now >= *attempt_again_ && now < join_until_) return begin_attempts(now);
  for (Attempt& attempt : attempts_) {
    if (!attempt.connection) continue;
    // A hub that has proved the secret sends nothing before Hello.
    attempt.connection->exchange();
    if (const auto& over = attempt.connection->over()) {
      attempt.why = *over;
      attempt.connection.reset();
    } else if (attempt.connection->is_proved()) {
      hub_.emplace(std::move(*attempt.connection));
      break;
    } else {
      ready_.watch(attempt.connection->descriptor(), any_key, true, attempt.connection->wants_to_write());
    }
  }
  if (hub_) {
    attempts_.clear();
    heard_ = now;
    return hub_->send(settings_.hello);
  }
  if (now >= join_until_) {
    std::string tried;
    for (const Attempt& attempt : attempts_) {
      fmt::format_to(std::back_inserter(tried), "{}{}: {}", tried.empty() ? "" : "; ", to_string(attempt.address),
                     attempt.why.empty() ? "no answer" : attempt.why);
    }
    return lose("it cannot be reached: " + tried);
  }
  const auto is_pending = [](const Attempt& attempt) { return attempt.connection.has_value(); };
  if (!attempt_again_ && std::ranges::none_of(attempts_, is_pending)) attempt_again_ = now + between_attempts;
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
  if (const auto& bye = side_.goodbye()) return bye->why.empty() ? end() : lose("it refuses this host: " + bye->why);
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

void PageLink::leave() {
  if (!hub_) return end();
  hub_->send(Bye{});
  hub_->end_sending();
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
  attempts_.clear();
}

}  // namespace shardproof::control::link

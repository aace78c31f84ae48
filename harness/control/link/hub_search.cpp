#include "harness/control/link/hub_search.hpp"

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

}  // namespace

HubSearch::HubSearch(std::string_view addresses, std::string secret, Deadline until, ReadySet& ready, std::uint64_t key)
    : secret_(std::move(secret)), until_(until), ready_(ready), key_(key) {
  for (const Address& address : parse_addresses(addresses))
    attempts_.push_back({.address = address, .connection = std::nullopt, .why = {}});
  const Deadline now = std::chrono::steady_clock::now();
  for (Attempt& attempt : attempts_) begin(attempt, now);
}

void HubSearch::begin(Attempt& attempt, Deadline now) {
  attempt.next = now + between_attempts;
  base::FileDescriptor socket(::socket(attempt.address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto* const address = reinterpret_cast<const sockaddr*>(&attempt.address.bytes);
  if (!socket || (::connect(socket.get(), address, attempt.address.length) != 0 && errno != EINPROGRESS)) {
    attempt.why = std::generic_category().message(errno);
    return;
  }
  ready_.add(socket.get(), key_);
  ready_.watch(socket.get(), key_, true, true);
  attempt.connection.emplace(std::move(socket), Side::page, secret_);
}

std::optional<Connection> HubSearch::advance(Deadline now) {
  for (Attempt& attempt : attempts_) {
    if (!attempt.connection && now >= attempt.next && now < until_) begin(attempt, now);
    if (!attempt.connection) continue;
    // A hub that has proved the secret sends nothing before the page's first message.
    attempt.connection->exchange();
    if (const auto& over = attempt.connection->over()) {
      attempt.why = *over;
      attempt.connection.reset();
      attempt.next = now + between_attempts;
    } else if (attempt.connection->is_proved()) {
      std::optional<Connection> found(std::move(attempt.connection));
      attempts_.clear();
      return found;
    } else {
      ready_.watch(attempt.connection->descriptor(), key_, true, attempt.connection->wants_to_write());
    }
  }
  return std::nullopt;
}

Deadline HubSearch::deadline() const {
  Deadline earliest = until_;
  for (const Attempt& attempt : attempts_) {
    if (!attempt.connection) earliest = std::min(earliest, attempt.next);
  }
  return earliest;
}

bool HubSearch::has_reached() const {
  return std::ranges::any_of(attempts_, [](const Attempt& attempt) {
    sockaddr_storage other{};
    socklen_t length = sizeof other;
    return attempt.connection &&
           ::getpeername(attempt.connection->descriptor(), reinterpret_cast<sockaddr*>(&other), &length) == 0;
  });
}

std::string HubSearch::answers() const {
  std::string text;
  for (const Attempt& attempt : attempts_) {
    fmt::format_to(std::back_inserter(text), "{}{}: {}", text.empty() ? "" : "; ", to_string(attempt.address),
                   attempt.why.empty() ? "no answer" : attempt.why);
  }
  return text;
}

}  // namespace shardproof::control::link

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
  begin();
}

void HubSearch::begin() {
  again_.reset();
  for (Attempt& attempt : attempts_) {
    base::FileDescriptor socket(
        ::socket(attempt.address.bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const auto* const address = reinterpret_cast<const sockaddr*>(&attempt.address.bytes);
    if (!socket || (::connect(socket.get(), address, attempt.address.length) != 0 && errno != EINPROGRESS)) {
      attempt.why = std::generic_category().message(errno);
      continue;
    }
    ready_.add(socket.get(), key_);
    ready_.watch(socket.get(), key_, true, true);
    attempt.connection.emplace(std::move(socket), Side::page, secret_);
  }
}

std::optional<Connection> HubSearch::advance(Deadline now) {
  if (again_ && now >= *again_ && now < until_) begin();
  for (Attempt& attempt : attempts_) {
    if (!attempt.connection) continue;
    // A hub that has proved the secret sends nothing before the page's first message.
    attempt.connection->exchange();
    if (const auto& over = attempt.connection->over()) {
      attempt.why = *over;
      attempt.connection.reset();
    } else if (attempt.connection->is_proved()) {
      std::optional<Connection> found(std::move(attempt.connection));
      attempts_.clear();
      return found;
    } else {
      ready_.watch(attempt.connection->descriptor(), key_, true, attempt.connection->wants_to_write());
    }
  }
  const auto is_pending = [](const Attempt& attempt) { return attempt.connection.has_value(); };
  if (!again_ && std::ranges::none_of(attempts_, is_pending)) again_ = now + between_attempts;
  return std::nullopt;
}

Deadline HubSearch::deadline() const { return again_ ? std::min(*again_, until_) : until_; }

std::string HubSearch::answers() const {
  std::string text;
  for (const Attempt& attempt : attempts_) {
    fmt::format_to(std::back_inserter(text), "{}{}: {}", text.empty() ? "" : "; ", to_string(attempt.address),
                   attempt.why.empty() ? "no answer" : attempt.why);
  }
  return text;
}

}  // namespace shardproof::control::link

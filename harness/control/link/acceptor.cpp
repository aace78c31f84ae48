#include "harness/control/link/acceptor.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <system_error>

#include "harness/control/link/addresses.hpp"

namespace shardproof::control::link {

namespace {

constexpr std::uint64_t key_of_listener = 0;  // no peer has this number
/// The most connections in one turn: a flood must not stop other work.
constexpr int most_accepted = 64;
constexpr std::chrono::milliseconds pause_without_descriptors{100};

template <class Socket>
bool binds(const base::FileDescriptor& socket, const Socket& address) {
  return socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// A socket for addresses of IPv4 and IPv6, or of IPv4 alone if the host has no IPv6.
base::FileDescriptor listen_on_all() {
  constexpr int kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;
  base::FileDescriptor socket(::socket(AF_INET6, kind, 0));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  const int no = 0;
  if (socket) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (!binds(socket, six)) {
    socket = base::FileDescriptor(::socket(AF_INET, kind, 0));
    sockaddr_in four{};
    four.sin_family = AF_INET;
    if (!binds(socket, four)) throw std::system_error(errno, std::generic_category(), "bind to a free port");
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) throw std::system_error(errno, std::generic_category(), "listen");
  return socket;
}

}  // namespace

Acceptor::Acceptor(Settings settings) : settings_(std::move(settings)), listener_(listen_on_all()) {
  ready_.add(listener_.get(), key_of_listener);
}

std::string Acceptor::addresses() const {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    throw std::system_error(errno, std::generic_category(), "getsockname");
  std::uint16_t port = 0;  // at the same place in both kinds of addresses
  std::memcpy(&port, reinterpret_cast<const char*>(&own) + offsetof(sockaddr_in, sin_port), sizeof port);
  return addresses_of_host(ntohs(port));
}

std::optional<Deadline> Acceptor::deadline() const {
  std::optional<Deadline> earliest = accept_again_;
  for (const auto& [id, peer] : peers_) {
    if (peer.is_stranger()) earliest = earliest ? std::min(*earliest, peer.limit) : peer.limit;
  }
  return earliest;
}

void Acceptor::handle_events() {
  // Messages that have arrived count before the limits: this process may have been stopped for a while.
  for (const std::uint64_t key : ready_.ready()) {
    if (key != key_of_listener) serve(key);
  }
  accept(std::chrono::steady_clock::now());
  const Deadline now = std::chrono::steady_clock::now();
  std::erase_if(peers_, [now](const auto& entry) { return entry.second.is_stranger() && now >= entry.second.limit; });
}

void Acceptor::accept(Deadline now) {
  if (accept_again_ && now < *accept_again_) return;
  if (std::exchange(accept_again_, std::nullopt)) ready_.watch(listener_.get(), key_of_listener, true, false);
  for (int accepted = 0; accepted < most_accepted; ++accepted) {
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    base::FileDescriptor socket(
        ::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      // Without a free descriptor, accept4 fails also if no connection waits.
      pollfd waits{.fd = listener_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&waits, 1, 0) == 0) return;
      if (drop_stranger()) continue;
      accept_again_ = now + pause_without_descriptors;
      ready_.watch(listener_.get(), key_of_listener, false, false);
      return;
    }
    ready_.add(socket.get(), ++last_id_);
    peers_.emplace(last_id_, Peer{.connection = Connection(std::move(socket), Side::hub, settings_.secret),
                                  .address = host_of(from),
                                  .limit = now + settings_.proof_limit});
    serve(last_id_);  // sends the challenge
    while (strangers() > most_strangers()) drop_stranger();
  }
}

/// Leaves descriptors to the owner.
std::size_t Acceptor::most_strangers() const {
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return settings_.most_strangers;
  return static_cast<std::size_t>(std::min<rlim_t>(settings_.most_strangers, descriptors.rlim_cur / part_of_strangers));
}

std::size_t Acceptor::strangers() const {
  const auto count = std::ranges::count_if(peers_, [](const auto& entry) { return entry.second.is_stranger(); });
  return static_cast<std::size_t>(count);
}

bool Acceptor::drop_stranger() {
  std::map<std::string_view, int> counts;
  int most = 0;
  for (const auto& [id, peer] : peers_) {
    if (peer.is_stranger()) most = std::max(most, ++counts[peer.address]);
  }
  const auto oldest = std::ranges::find_if(
      peers_, [&](const auto& entry) { return entry.second.is_stranger() && counts.at(entry.second.address) == most; });
  if (oldest == peers_.end()) return false;
  peers_.erase(oldest);
  return true;
}

void Acceptor::serve(std::uint64_t id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Connection& connection = found->second.connection;
  if (auto message = connection.exchange_one()) {
    ready_.remove(connection.descriptor());
    arrivals_.push_back({.connection = std::move(connection), .first = *std::move(message)});
    peers_.erase(found);
  } else if (connection.over()) {
    peers_.erase(found);
  } else {
    ready_.watch(connection.descriptor(), id, true, connection.wants_to_write());
  }
}

}  // namespace shardproof::control::link

#include "harness/control/link/hub.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "harness/control/link/addresses.hpp"

namespace shardproof::control::link {

namespace {

constexpr std::uint64_t key_of_listener = 0;  // no peer has this number
/// In one turn, so that a flood does not stop the hub's other work.
constexpr int most_accepted = 64;
constexpr std::chrono::seconds limit_of_leaving{5};
constexpr std::chrono::milliseconds pause_without_descriptors{100};

template <class Socket>
bool binds(const base::FileDescriptor& socket, const Socket& address) {
  return socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

/// A socket for both kinds of addresses, or for those of IPv4 where the host has no IPv6.
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
    if (!binds(socket, four)) throw std::system_error(errno, std::generic_category(), "hub: bind to a free port");
  }
  if (::listen(socket.get(), SOMAXCONN) != 0) throw std::system_error(errno, std::generic_category(), "hub: listen");
  return socket;
}

}  // namespace

Hub::Hub(Settings settings) : settings_(std::move(settings)), core_(settings_.core), listener_(listen_on_all()) {
  ready_.add(listener_.get(), key_of_listener);
}

std::string Hub::addresses() const {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    throw std::system_error(errno, std::generic_category(), "hub: getsockname");
  std::uint16_t port = 0;  // at the same place in both kinds of addresses
  std::memcpy(&port, reinterpret_cast<const char*>(&own) + offsetof(sockaddr_in, sin_port), sizeof port);
  return addresses_of_host(ntohs(port));
}

std::optional<Deadline> Hub::deadline() const {
  std::optional<Deadline> earliest = core_.deadline();
  const auto add = [&](Deadline at) { earliest = earliest ? std::min(*earliest, at) : at; };
  for (const auto& [id, peer] : peers_) {
    if (!peer.has_joined || peer.is_leaving) add(peer.limit);
  }
  if (accept_again_) add(*accept_again_);
  return earliest;
}

void Hub::handle_events() {
  // Messages that have arrived count before the limits: this process may have been stopped for a while.
  Deadline now = std::chrono::steady_clock::now();
  for (const std::uint64_t key : ready_.ready()) {
    if (key != key_of_listener) serve(key, now);
  }
  accept(now);
  std::vector<LinkId> over;  // a peer that takes no bytes any more
  for (const auto& [id, peer] : peers_) {
    if (peer.connection.over()) over.push_back(id);
  }
  for (const LinkId id : over) serve(id, now);
  now = std::chrono::steady_clock::now();
  drop_late(now);
  take(core_.time_passed(now), now);
}

void Hub::watch(LinkId id, const Connection& connection) {
  ready_.watch(connection.descriptor(), id, true, connection.wants_to_write());
}

void Hub::accept(Deadline now) {
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
    serve(last_id_, now);  // sends the challenge
    while (strangers() > most_strangers()) drop_stranger();
  }
}

/// Guards and pages start all at once, and try all addresses of the hub. The launcher needs descriptors, too.
std::size_t Hub::most_strangers() const {
  const std::size_t wanted = 512 + 8 * static_cast<std::size_t>(settings_.core.world_size);
  rlimit descriptors{};
  if (::getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return wanted;
  return static_cast<std::size_t>(std::min<rlim_t>(wanted, descriptors.rlim_cur / part_of_strangers));
}

std::size_t Hub::strangers() const {
  const auto count = std::ranges::count_if(peers_, [](const auto& entry) { return entry.second.is_stranger(); });
  return static_cast<std::size_t>(count);
}

/// Drops the oldest stranger of the address that has the most strangers.
bool Hub::drop_stranger() {
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

void Hub::serve(LinkId id, Deadline now) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  std::vector<Message> messages = peer.connection.exchange();
  if (!peer.has_joined && !messages.empty() && std::holds_alternative<Note>(messages.front())) {
    ready_.remove(peer.connection.descriptor());
    guests_.push_back({.connection = std::move(peer.connection), .received = std::move(messages)});
    peers_.erase(found);
    return;
  }
  for (const Message& message : messages) {
    if (peer.is_leaving) break;
    if (peer.has_joined) {
      take(core_.received(id, message, now), now);
    } else if (const auto* hello = std::get_if<Hello>(&message)) {
      peer.has_joined = true;
      take(core_.connected(id, *hello, now), now);
    } else {
      break;  // its limit ends it
    }
  }
  if (!peer.connection.over()) return watch(id, peer.connection);
  const std::string why = *peer.connection.over();
  const bool was_joined = peer.has_joined && !peer.is_leaving;
  peers_.erase(found);
  if (was_joined) take(core_.lost(id, why, now), now);
}

void Hub::take(const Sends& sends, Deadline now) {
  std::vector<LinkId> changed;
  for (const Send& send : sends.messages) {
    const auto found = peers_.find(send.to);
    if (found == peers_.end()) continue;
    found->second.connection.send(send.message);
    changed.push_back(send.to);
  }
  for (const LinkId id : sends.closed) {
    const auto found = peers_.find(id);
    if (found == peers_.end()) continue;
    found->second.is_leaving = true;
    found->second.limit = now + limit_of_leaving;
    found->second.connection.end_sending();
    changed.push_back(id);
  }
  for (const LinkId id : changed) {
    Connection& connection = peers_.at(id).connection;
    connection.flush();
    watch(id, connection);
  }
}

void Hub::drop_late(Deadline now) {
  std::erase_if(peers_, [now](const auto& entry) {
    const Peer& peer = entry.second;
    return (!peer.has_joined || peer.is_leaving) && now >= peer.limit;
  });
}

}  // namespace shardproof::control::link

#include "harness/control/link/hub.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "harness/control/link/addresses.hpp"

namespace shardproof::control::link {

namespace {

constexpr std::uint64_t key_of_listener = 0;  // no peer has this number
/// Guards and pages start all at once, and try all addresses of the hub.
std::size_t most_strangers(int world_size) { return 512 + 8 * static_cast<std::size_t>(world_size); }
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
  while (true) {
    base::FileDescriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      accept_again_ = now + pause_without_descriptors;
      ready_.watch(listener_.get(), key_of_listener, false, false);
      return;
    }
    ready_.add(socket.get(), ++last_id_);
    peers_.emplace(last_id_, Peer{.connection = Connection(std::move(socket), Side::hub, settings_.secret),
                                  .limit = now + settings_.proof_limit});
    serve(last_id_, now);  // sends the challenge
    drop_oldest_stranger();
  }
}

void Hub::drop_oldest_stranger() {
  const auto is_stranger = [](const auto& entry) { return !entry.second.has_joined; };
  if (std::ranges::count_if(peers_, is_stranger) >
      static_cast<std::ptrdiff_t>(most_strangers(settings_.core.world_size)))
    peers_.erase(std::ranges::find_if(peers_, is_stranger));
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

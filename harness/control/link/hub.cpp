#include "harness/control/link/hub.hpp"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

namespace shardproof::control::link {

namespace {

constexpr std::uint64_t key_of_acceptor = 0;  // no peer has this number
constexpr std::chrono::seconds limit_of_leaving{5};

}  // namespace

Hub::Hub(const Settings& settings)
    : core_(settings.core),
      acceptor_({.secret = settings.secret,
                 .most_strangers = usual_strangers(settings.core.world_size),
                 .proof_limit = settings.proof_limit}) {
  ready_.add(acceptor_.descriptor(), key_of_acceptor);
}

std::optional<Deadline> Hub::deadline() const {
  std::optional<Deadline> earliest = core_.deadline();
  const auto add = [&](Deadline at) { earliest = earliest ? std::min(*earliest, at) : at; };
  if (const auto next = acceptor_.deadline()) add(*next);
  for (const auto& [id, peer] : peers_) {
    if (peer.is_leaving) add(peer.limit);
  }
  return earliest;
}

void Hub::handle_events() {
  // Messages that have arrived count before the limits: this process may have been stopped for a while.
  Deadline now = std::chrono::steady_clock::now();
  for (const std::uint64_t key : ready_.ready()) {
    if (key != key_of_acceptor) serve(key, now);
  }
  acceptor_.handle_events();
  for (Acceptor::Arrival& arrival : acceptor_.take_arrivals()) receive(std::move(arrival), now);
  std::vector<LinkId> over;  // a peer that takes no bytes any more
  for (const auto& [id, peer] : peers_) {
    if (peer.connection.over()) over.push_back(id);
  }
  for (const LinkId id : over) serve(id, now);
  now = std::chrono::steady_clock::now();
  std::erase_if(peers_, [now](const auto& entry) { return entry.second.is_leaving && now >= entry.second.limit; });
  take(core_.time_passed(now), now);
}

void Hub::receive(Acceptor::Arrival arrival, Deadline now) {
  if (std::holds_alternative<Note>(arrival.first)) {
    guests_.push_back(std::move(arrival));
  } else if (const auto* const hello = std::get_if<Hello>(&arrival.first)) {
    const LinkId id = ++last_id_;
    ready_.add(arrival.connection.descriptor(), id);
    peers_.emplace(id, Peer{.connection = std::move(arrival.connection)});
    take(core_.connected(id, *hello, now), now);
    serve(id, now);  // more messages may have come with the first one
  }
}

void Hub::watch(LinkId id, const Connection& connection) {
  ready_.watch(connection.descriptor(), id, true, connection.wants_to_write());
}

void Hub::serve(LinkId id, Deadline now) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  Peer& peer = found->second;
  for (const Message& message : peer.connection.exchange()) {
    if (peer.is_leaving) break;
    take(core_.received(id, message, now), now);
  }
  if (!peer.connection.over()) return watch(id, peer.connection);
  const std::string why = *peer.connection.over();
  const bool was_joined = !peer.is_leaving;
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

}  // namespace shardproof::control::link

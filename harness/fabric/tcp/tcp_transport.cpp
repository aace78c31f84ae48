#include "harness/fabric/tcp/tcp_transport.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>
#include <variant>

#include "harness/base/open_files.hpp"
#include "harness/control/link/proof.hpp"
#include "harness/protocol/environment.hpp"

namespace shardproof::fabric::tcp {

using control::Deadline;
using control::link::Acceptor;
using control::link::Connection;
using control::link::Note;
using messages::Operation;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t key_of_acceptor = 0;
constexpr std::uint64_t key_of_peer(int rank) { return static_cast<std::uint64_t>(rank) + 1; }

/// No fabric sends a longer message. A longer one is not from a rank.
constexpr std::uint64_t longest_message = std::uint64_t{1} << 30U;

/// A store on a shared file system shows a new key late.
constexpr std::chrono::milliseconds between_looks{5};

std::string fresh_secret() { return fmt::format("{:02x}", fmt::join(control::link::fresh_nonce(), "")); }

/// Allows two descriptors for each rank: a rank tries several addresses of another rank at once, until it is connected.
void require_open_files(int first_free, int rank, int size) {
  constexpr int reserve = 32;
  const int needed = first_free + 2 * size + reserve;
  if (const auto limit = base::raise_open_files(static_cast<rlim_t>(needed)))
    throw std::runtime_error(
        fmt::format("rank {} of {} needs {} open files for TCP connections, the limit is {}: raise "
                    "it with `ulimit -n {}`",
                    rank, size, needed, *limit, needed));
}

/// A rank's first message on a connection.
Note greeting_of(int rank) { return {fmt::format("rank {}", rank)}; }

}  // namespace

TcpTransport::TcpTransport(rendezvous::FileStore store, int rank, int size)
    : store_(std::move(store)), rank_(rank), peers_(static_cast<std::size_t>(size)), unconnected_(size - 1) {
  if (size == 1) return;
  const std::string secret = fresh_secret();
  acceptor_.emplace(Acceptor::Settings{.secret = secret, .most_strangers = control::link::usual_strangers(size)});
  if (acceptor_->addresses().empty())
    throw std::runtime_error(
        fmt::format("rank {} has no address for TCP connections: no network interface is up on "
                    "{}; where all ranks are there, `ip link set lo up` is enough",
                    rank, protocol::host_name()));
  require_open_files(acceptor_->descriptor(), rank, size);
  ready_.add(acceptor_->descriptor(), key_of_acceptor);
  store_.put(key_of(rank), fmt::format("{}\n{}", secret, acceptor_->addresses()));
}

std::string TcpTransport::key_of(int rank) { return fmt::format("rank-{}", rank); }

int TcpTransport::greatest_tag() const { return std::numeric_limits<std::int32_t>::max(); }

// -- Operations -------------------------------------------------------------------------------------------------------

Operation TcpTransport::send(std::span<const std::byte> bytes, int to, int tag) {
  const Operation begun{++last_operation_};
  sending_.insert(begun.value);
  peer(to).sends.push_back({.header = {.tag = tag, .bytes = bytes.size()}, .bytes = bytes, .operation = begun.value});
  flush(to);
  return begun;
}

Operation TcpTransport::receive(std::span<std::byte> room, int from, int tag) {
  const Operation begun{++last_operation_};
  inbox_.receive(room, from, tag, begun.value);
  return begun;
}

bool TcpTransport::test(Operation& operation) {
  const auto is_over = [&] { return !sending_.contains(operation.value) && inbox_.is_over(operation.value); };
  if (is_over()) return true;
  progress();
  return is_over();
}

std::optional<messages::Arrival> TcpTransport::probe() {
  progress();
  return inbox_.probe();
}

void TcpTransport::progress() {
  for (const std::uint64_t key : ready_.ready()) {
    if (key == key_of_acceptor) accept_arrivals();
    else serve(static_cast<int>(key) - 1);
  }
  if (unconnected_ > 0) connect_more();
  if (unconnected_ == 0) acceptor_.reset();
}

// -- Connections ------------------------------------------------------------------------------------------------------

void TcpTransport::connect_more() {
  const Deadline now = Clock::now();
  if (now >= next_look_) begin_searches(now);
  for (int rank = 0; rank < rank_; ++rank) {
    if (peer(rank).search) search_for(rank, now);
  }
  if (const auto next = acceptor_->deadline(); next && now >= *next) accept_arrivals();
}

std::optional<std::string> TcpTransport::look_up(int rank) const {
  try {
    return store_.get(key_of(rank));
  } catch (const rendezvous::TornValue&) {
    return std::nullopt;  // this host sees only a part of the file yet
  }
}

void TcpTransport::begin_searches(Deadline now) {
  next_look_ = now + between_looks;
  bool is_any_missing = false;
  for (int rank = 0; rank < rank_; ++rank) {
    Peer& other = peer(rank);
    if (other.was_connected || other.search) continue;
    const auto published = look_up(rank);
    if (!published) {
      is_any_missing = true;
      continue;
    }
    const std::size_t end = published->find('\n');
    other.search.emplace(std::string_view(*published).substr(end + 1), published->substr(0, end), Deadline::max(),
                         ready_, key_of_peer(rank));
  }
  if (is_any_missing) store_.refresh();
}

void TcpTransport::search_for(int rank, Deadline now) {
  auto found = peer(rank).search->advance(now);
  if (!found) return;
  found->send(greeting_of(rank_));
  use(rank, *std::move(found));
}

void TcpTransport::accept_arrivals() {
  acceptor_->handle_events();
  for (Acceptor::Arrival& arrival : acceptor_->take_arrivals()) {
    const auto* const greeting = std::get_if<Note>(&arrival.first);
    for (int rank = rank_ + 1; rank < size() && greeting != nullptr; ++rank) {
      if (peer(rank).was_connected || greeting->text != greeting_of(rank).text) continue;
      ready_.add(arrival.connection.descriptor(), key_of_peer(rank));
      use(rank, std::move(arrival.connection));
      break;
    }
  }
}

void TcpTransport::use(int rank, Connection connection) {
  Peer& other = peer(rank);
  other.search.reset();
  other.was_connected = true;
  --unconnected_;
  other.stream.emplace(std::move(connection).release());
  ready_.watch(other.stream->descriptor(), key_of_peer(rank), true, false);
  serve(rank);  // bytes may have come with the greeting
}

void TcpTransport::lose(int rank, std::string why) {
  peer(rank).lost = std::move(why);
  peer(rank).stream.reset();
  inbox_.lose(rank);
}

std::string TcpTransport::trouble(int rank) const {
  const Peer& other = peer(rank);
  if (!other.lost.empty()) return fmt::format("the TCP connection to rank {} is over: {}", rank, other.lost);
  if (other.was_connected || rank == rank_) return {};
  if (other.search)
    return fmt::format(
        "rank {} cannot connect to rank {} over TCP: {} (hosts of ranks have to accept TCP from each "
        "other: docs/clusters.md)",
        rank_, rank, other.search->answers());
  if (rank < rank_)
    return fmt::format("rank {} has not published its addresses for TCP, or this host does not see them yet", rank);
  return fmt::format(
      "rank {} has made no TCP connection to {}: it has begun no call, or its host cannot reach these "
      "addresses (docs/clusters.md)",
      rank, acceptor_->addresses());
}

// -- Bytes ------------------------------------------------------------------------------------------------------------

void TcpTransport::serve(int rank) {
  if (peer(rank).stream) read(rank);
  flush(rank);
}

void TcpTransport::read(int rank) {
  Peer& from = peer(rank);
  while (true) {
    const bool in_header = from.header_bytes < sizeof from.header;
    const std::span<std::byte> room =
        in_header ? std::as_writable_bytes(std::span(&from.header, 1)).subspan(from.header_bytes) : from.room;
    const std::size_t count = from.stream->read(room);
    if (count == 0) break;
    if (in_header) {
      from.header_bytes += count;
      if (from.header_bytes < sizeof from.header) continue;
      if (from.header.bytes > longest_message) return lose(rank, "it sent bytes that are not a valid message");
      from.room = inbox_.begin(rank, from.header.tag, static_cast<std::size_t>(from.header.bytes));
    } else {
      from.room = from.room.subspan(count);
    }
    if (!from.room.empty()) continue;
    from.header_bytes = 0;
    inbox_.end(rank);
  }
  if (!from.stream->broken().empty()) lose(rank, from.stream->broken());
}

void TcpTransport::flush(int rank) {
  Peer& to = peer(rank);
  if (!to.stream) return;
  to.stream->write({}, {});
  while (!to.sends.empty()) {
    Send& first = to.sends.front();
    const auto header = std::as_bytes(std::span(&first.header, 1));
    const std::size_t of_header = std::min(first.sent, header.size());
    first.sent += to.stream->write(header.subspan(of_header), first.bytes.subspan(first.sent - of_header));
    if (first.sent < header.size() + first.bytes.size()) break;
    sending_.erase(first.operation);
    to.sends.pop_front();
  }
  // Messages that arrived before the connection broke still count. The next read finds them, and then the end.
  const bool for_writing = (!to.sends.empty() || to.stream->has_unsent()) && to.stream->takes_bytes();
  if (for_writing == to.is_watched_for_writing) return;
  to.is_watched_for_writing = for_writing;
  ready_.watch(to.stream->descriptor(), key_of_peer(rank), true, for_writing);
}

}  // namespace shardproof::fabric::tcp

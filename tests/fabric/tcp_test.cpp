// Messages over TCP connections, between ranks on this machine.
#include "harness/fabric/tcp/tcp_transport.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "harness/control/link/hub_search.hpp"
#include "harness/fabric/messages/message_fabric.hpp"
#include "harness/fabric/messages/messenger.hpp"
#include "harness/fabric/tcp/byte_stream.hpp"
#include "tests/fabric/message_worlds.hpp"
#include "tests/rendezvous/late_files.hpp"
#include "tests/rounds.hpp"

using namespace shardproof;
using namespace shardproof::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using control::link::Connection;
using control::link::Note;
using fabric::tcp::ByteStream;
using fabric::tcp::TcpTransport;

namespace {

using TcpOperation = fabric::messages::Operation;

constexpr int largest_tag = std::numeric_limits<std::int32_t>::max();

/// The ranks of a world. The thread of the test works for each of them in turn.
class TcpRanks {
 public:
  using StoreOf = std::function<rendezvous::FileStore(int rank)>;
  explicit TcpRanks(int size, StoreOf store_of = {}) : store_of_(std::move(store_of)) {
    transports_.resize(static_cast<std::size_t>(size));
    if (!store_of_) store_of_ = [this](int rank) { return rendezvous::FileStore(directory_.path(), "nonce", rank); };
  }

  TcpTransport& open(int rank) {
    auto& place = transports_[static_cast<std::size_t>(rank)];
    place = std::make_unique<TcpTransport>(store_of_(rank), rank, static_cast<int>(transports_.size()));
    return *place;
  }
  void open_all() {
    for (int rank = 0; rank < static_cast<int>(transports_.size()); ++rank) open(rank);
  }
  void close(int rank) { transports_[static_cast<std::size_t>(rank)].reset(); }
  TcpTransport& operator[](int rank) { return *transports_[static_cast<std::size_t>(rank)]; }

  /// Lets all ranks work until `holds` returns true. `what` is the error if that takes too long.
  void work_until(const std::function<bool()>& holds, const std::string& what) {
    await(
        [&] {
          for (const auto& one : transports_) {
            if (one) one->probe();
          }
          return holds();
        },
        what);
  }
  /// The secret and the addresses of a rank.
  std::pair<std::string, std::string> published_by(int rank) const {
    const std::string text = store_of_(rank).get(fmt::format("rank-{}", rank)).value();
    const std::size_t end = text.find('\n');
    return {text.substr(0, end), text.substr(end + 1)};
  }

 private:
  ScratchDirectory directory_;
  StoreOf store_of_;
  std::vector<std::unique_ptr<TcpTransport>> transports_;
};

/// The header of a message, as TcpTransport sends it.
struct WireHeader {
  std::int32_t tag = 0;
  std::uint32_t unused = 0;
  std::uint64_t bytes = 0;
};

/// The beginning of a message on its connection: the header of a message of `bytes` bytes, and a part of them.
std::string begun_message(int tag, std::uint64_t bytes, std::string_view part) {
  const WireHeader header{.tag = tag, .bytes = bytes};
  std::string begun(sizeof header, '\0');
  std::memcpy(begun.data(), &header, sizeof header);
  return begun.append(part);
}

/// A connection to a rank, whose other side has proved the secret and sent nothing else.
class ProvedPeer {
 public:
  ProvedPeer(TcpRanks& ranks, int rank) {
    const auto [secret, addresses] = ranks.published_by(rank);
    control::link::HubSearch search(addresses, secret, control::Deadline::max(), ready_, 1);
    ranks.work_until([&] { return (connection_ = search.advance(std::chrono::steady_clock::now())).has_value(); },
                     "the rank does not accept the proof");
  }
  void greet(const control::link::Message& message) {
    connection_->send(message);
    connection_->flush();
  }
  /// Sends bytes as they are, not as a message of the control plane.
  void send(const std::string& bytes) {
    REQUIRE(::send(connection_->descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  bool is_refused() {
    connection_->exchange();
    return connection_->over().has_value();
  }
  int descriptor() const { return connection_->descriptor(); }
  void close() { connection_.reset(); }

 private:
  control::link::ReadySet ready_;
  std::optional<Connection> connection_;
};

base::FileDescriptor stranger_of(const std::string& addresses) {
  const control::link::Address address = control::link::parse_addresses(addresses).back();
  base::FileDescriptor socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.length) == 0);
  return socket;
}

void write_to(const base::FileDescriptor& socket, const std::string& bytes) {
  ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// The text has to live until it is sent.
std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }
std::span<std::byte> room_in(std::string& text) { return std::as_writable_bytes(std::span(text)); }

/// Sends a text from one rank to another, and checks that it arrives.
void check_way(TcpRanks& ranks, int from, int to) {
  const std::string sent = fmt::format("from {} to {}", from, to);
  std::string room(sent.size(), '.');
  TcpOperation send = ranks[from].send(bytes_of(sent), to, 7), receive = ranks[to].receive(room_in(room), from, 7);
  ranks.work_until([&] { return ranks[from].test(send) && ranks[to].test(receive); }, sent);
  CHECK((room == sent));
}

std::string random_text(std::size_t bytes, std::uint64_t seed) {
  std::string text(bytes, '\0');
  std::mt19937_64 random(seed);
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    const std::uint64_t word = random();
    std::memcpy(text.data() + at, &word, sizeof word);
  }
  for (; at < bytes; ++at) text[at] = static_cast<char>(random());
  return text;
}

}  // namespace

TEST_CASE("tcp: a world of one rank opens no socket and publishes nothing") {
  TcpRanks ranks(1);
  TcpTransport& only = ranks.open(0);
  CHECK_FALSE(only.probe());
  CHECK(only.trouble(0).empty());
  CHECK_THROWS(ranks.published_by(0));
}

namespace {

/// A message from one rank to another. Both ranks know it from the seed.
struct PlannedMessage {
  int tag;
  std::string text;
};

std::vector<PlannedMessage> planned_messages(std::uint64_t seed, int from, int to) {
  constexpr std::array sizes{std::size_t{0},     std::size_t{1},     std::size_t{15},      std::size_t{16},
                             std::size_t{17},    std::size_t{1000},  std::size_t{65535},   std::size_t{65536},
                             std::size_t{65537}, std::size_t{70000}, std::size_t{1} << 20, std::size_t{4} << 20};
  constexpr std::array tags{0, 1, 32767, largest_tag};
  std::mt19937_64 random(seed * 10007 + static_cast<std::uint64_t>(100 * from + to));
  std::vector<PlannedMessage> messages;
  for (int i = 0; i < 14; ++i) {
    const int tag = tags[random() % tags.size()];
    messages.push_back({tag, random_text(sizes[random() % sizes.size()], random())});
  }
  return messages;
}

/// One rank of the world of random messages, in its own thread.
void exchange_random_messages(TcpTransport& transport, std::uint64_t seed) {
  const int self = transport.rank();
  std::mt19937_64 random(seed + static_cast<std::uint64_t>(self));
  struct Awaited {
    int from;
    const PlannedMessage* message;
    std::string room;
    TcpOperation operation;
  };
  std::vector<std::vector<PlannedMessage>> sent, coming;
  std::vector<TcpOperation> sends, never;
  std::string unused(10, '.');
  struct Next {
    bool is_send;
    int peer;
    std::size_t index;
  };
  std::vector<Next> order;
  for (int peer = 0; peer < transport.size(); ++peer) {
    sent.push_back(peer == self ? std::vector<PlannedMessage>() : planned_messages(seed, self, peer));
    coming.push_back(peer == self ? std::vector<PlannedMessage>() : planned_messages(seed, peer, self));
    for (std::size_t i = 0; i < sent.back().size(); ++i) order.push_back({true, peer, i});
    for (std::size_t i = 0; i < coming.back().size(); ++i) order.push_back({false, peer, i});
  }
  std::ranges::shuffle(order, random);
  // The messages of a peer go in their order. The order of different peers, and of sends and receives, is random.
  std::map<std::pair<bool, int>, std::size_t> begun;
  std::vector<std::unique_ptr<Awaited>> awaited;
  for (const Next& next : order) {
    const std::size_t index = begun[{next.is_send, next.peer}]++;
    const auto peer = static_cast<std::size_t>(next.peer);
    if (next.is_send) {
      const PlannedMessage& message = sent[peer][index];
      sends.push_back(transport.send(bytes_of(message.text), next.peer, message.tag));
    } else {
      const PlannedMessage& message = coming[peer][index];
      awaited.push_back(std::make_unique<Awaited>(
          next.peer, &message, std::string(message.text.size() + random() % 3, '.'), TcpOperation{}));
      awaited.back()->operation = transport.receive(room_in(awaited.back()->room), next.peer, message.tag);
    }
    if (random() % 4 == 0) never.push_back(transport.receive(room_in(unused), next.peer, 99));
    if (random() % 3 == 0) transport.probe();  // so that other receives are late
    if (random() % 8 == 0 && !never.empty()) transport.cancel(never[random() % never.size()]);
  }
  for (TcpOperation& operation : never) transport.cancel(operation);
  await(
      [&] {
        std::erase_if(sends, [&](TcpOperation& one) { return transport.test(one); });
        std::erase_if(never, [&](TcpOperation& one) { return transport.test(one); });
        std::erase_if(awaited, [&](const auto& one) {
          if (!transport.test(one->operation)) return false;
          const std::string& text = one->message->text;
          expect(one->room == text + std::string(one->room.size() - text.size(), '.'),
                 fmt::format("rank {} did not get the bytes that rank {} sent", self, one->from));
          return true;
        });
        return sends.empty() && never.empty() && awaited.empty();
      },
      fmt::format("rank {}: {} sends, {} receives and {} cancelled receives are not over", self, sends.size(),
                  awaited.size(), never.size()));
  expect(!transport.probe().has_value(), "a message is left");
}

}  // namespace

TEST_CASE("tcp: random messages of all ranks to all ranks arrive as they were sent") {
  const std::uint64_t seed = Catch::getSeed();
  for (int round = 0; round < rounds(4); ++round) {
    INFO("replay with --rng-seed " << seed << ", round " << round);
    const int size = 2 + round % 3;
    TcpRanks ranks(size);
    ranks.open_all();
    std::vector<std::string> failures(static_cast<std::size_t>(size));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          exchange_random_messages(ranks[rank], seed + static_cast<std::uint64_t>(round));
        } catch (const std::exception& thrown) {
          failures[static_cast<std::size_t>(rank)] = thrown.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(failures == all_well(size));
  }
}

TEST_CASE("tcp: ranks that send each other more than the sockets take receive all of it") {
  constexpr std::size_t bytes = std::size_t{24} << 20;
  TcpRanks ranks(2);
  ranks.open_all();
  check_way(ranks, 0, 1);
  const std::array sent{random_text(bytes, 1), random_text(bytes, 2)};
  std::array rooms{std::string(bytes, '.'), std::string(bytes, '.')};
  std::vector<std::pair<int, TcpOperation>> open;
  open.emplace_back(0, ranks[0].send(bytes_of(sent[0]), 1, 1));
  open.emplace_back(1, ranks[1].send(bytes_of(sent[1]), 0, 1));
  for (auto& [rank, send] : open) {
    if (rank == 0) CHECK_FALSE(ranks[0].test(send));  // the other rank has not taken any byte yet
  }
  open.emplace_back(0, ranks[0].receive(room_in(rooms[0]), 1, 1));
  open.emplace_back(1, ranks[1].receive(room_in(rooms[1]), 0, 1));
  await(
      [&] {
        std::erase_if(open, [&](auto& one) { return ranks[one.first].test(one.second); });
        return open.empty();
      },
      "not all bytes have come");
  CHECK((rooms[0] == sent[1]));
  CHECK((rooms[1] == sent[0]));
}

TEST_CASE("tcp: a probe shows a message without a receive, and a later receive gets it") {
  TcpRanks ranks(2);
  ranks.open_all();
  const std::string sent = random_text(300'000, 3);
  TcpOperation send = ranks[0].send(bytes_of(sent), 1, largest_tag);
  std::optional<fabric::messages::Arrival> arrival;
  await([&] { return ranks[0].test(send), (arrival = ranks[1].probe()).has_value(); }, "no message arrives");
  CHECK((arrival->from == 0 && arrival->tag == largest_tag && arrival->bytes == sent.size()));
  std::string room(sent.size(), '.');
  TcpOperation receive = ranks[1].receive(room_in(room), 0, largest_tag);
  CHECK(ranks[1].test(receive));
  CHECK((room == sent));
}

TEST_CASE("tcp: a message with more bytes than its receive is an error, and the next messages still come") {
  TcpRanks ranks(2);
  ranks.open_all();
  check_way(ranks, 0, 1);
  const std::string sent = "six by";
  std::string narrow(5, '.'), wide(6, '.');
  TcpOperation send = ranks[0].send(bytes_of(sent), 1, 3), other = ranks[0].send(bytes_of(sent), 1, 4);
  TcpOperation receive = ranks[1].receive(room_in(narrow), 0, 3);
  std::string error;
  ranks.work_until(
      [&] {
        try {
          ranks[0].test(send);
          return ranks[1].test(receive);
        } catch (const std::runtime_error& thrown) {
          error = thrown.what();
          return true;
        }
      },
      "no error");
  CHECK(error == "a message of rank 0 with tag 3 has 6 bytes, its receive has room for 5");
  ranks[1].cancel(receive);
  CHECK(ranks[1].test(receive));
  CHECK(narrow == ".....");
  TcpOperation next = ranks[1].receive(room_in(wide), 0, 4);
  ranks.work_until([&] { return ranks[0].test(other) && ranks[1].test(next); }, "the next message does not come");
  TcpOperation again = ranks[1].receive(room_in(wide), 0, 3);
  CHECK(ranks[1].test(again));
  ranks.close(0);
  ranks.work_until([&] { return !ranks[1].trouble(0).empty(); }, "the end is not seen");
}

TEST_CASE("tcp: strangers at the port cost only their own connections") {
  TcpRanks ranks(2), another_world(2);
  ranks.open(0);
  another_world.open(0);
  const auto [secret, addresses] = ranks.published_by(0);
  const std::string secret_of_another = another_world.published_by(0).first;
  REQUIRE(secret != secret_of_another);
  std::vector<base::FileDescriptor> kept;
  for (int i = 0; i < 300; ++i) kept.push_back(stranger_of(addresses));  // a flood, and silence
  for (int i = 0; i < 20; ++i) {
    kept.push_back(stranger_of(addresses));
    write_to(kept.back(), i % 2 == 0 ? std::string(100'000, '\xff') : "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    kept.push_back(stranger_of(addresses));
    write_to(kept.back(), encode(Note{"rank 1"}) + begun_message(7, 4, "evil"));
  }
  control::link::ReadySet ready;
  control::link::HubSearch search(addresses, secret_of_another, control::Deadline::max(), ready, 1);
  ranks.work_until(
      [&] {
        CHECK_FALSE(search.advance(std::chrono::steady_clock::now()));
        return search.answers().find("another secret") != std::string::npos;
      },
      "the proof of another world is not refused");
  CHECK_THAT(ranks[0].trouble(1), StartsWith("rank 1 has made no TCP connection to "));
  ranks.open(1);
  check_way(ranks, 0, 1);
  check_way(ranks, 1, 0);
}

TEST_CASE("tcp: a process that knows the secret is refused unless it greets as a rank that is awaited") {
  TcpRanks ranks(4);
  ranks.open(1);
  for (const char* const not_above : {"rank 0", "rank 1"}) {
    CAPTURE(not_above);
    ProvedPeer peer(ranks, 1);
    peer.greet(Note{not_above});
    ranks.work_until([&] { return peer.is_refused(); }, "not refused");
  }
  for (const int rank : {0, 2}) ranks.open(rank);
  check_way(ranks, 0, 1);
  check_way(ranks, 1, 2);
  const std::vector<control::link::Message> greetings{
      Note{"rank 1"},   Note{"rank 0"},
      Note{"rank 4"},   Note{"rank 3 "},
      Note{"rank -1"},  Note{""},
      Note{"nonsense"}, control::link::Hello{.world_size = 4, .host = "x", .ranks = {3}}};
  for (std::size_t i = 0; i < greetings.size(); ++i) {
    CAPTURE(i);
    ProvedPeer peer(ranks, i == 0 ? 0 : 1);
    peer.greet(greetings[i]);
    ranks.work_until([&] { return peer.is_refused(); }, "not refused");
  }
  CHECK_THAT(ranks[1].trouble(3), StartsWith("rank 3 has made no TCP connection to "));
  check_way(ranks, 1, 0);
  ranks.open(3);
  for (const int rank : {0, 1, 2}) check_way(ranks, 3, rank);
}

TEST_CASE("tcp: a rank takes messages that come with the greeting") {
  TcpRanks ranks(2);
  ranks.open(0);
  ProvedPeer peer(ranks, 0);
  peer.send(encode(Note{"rank 1"}) + begun_message(7, 3, "abc") + begun_message(8, 5, "de"));
  std::string first(3, '.'), second(5, '.');
  TcpOperation one = ranks[0].receive(room_in(first), 1, 7), two = ranks[0].receive(room_in(second), 1, 8);
  await([&] { return ranks[0].test(one); }, "the message with the greeting does not come");
  CHECK(first == "abc");
  CHECK_FALSE(ranks[0].test(two));
  peer.send("fgh");
  await([&] { return ranks[0].test(two); }, "the rest does not come");
  CHECK(second == "defgh");
}

TEST_CASE("tcp: a rank takes headers and bytes one at a time") {
  TcpRanks ranks(2);
  ranks.open(0);
  ProvedPeer peer(ranks, 0);
  peer.greet(Note{"rank 1"});
  std::string room(3, '.');
  TcpOperation receive = ranks[0].receive(room_in(room), 1, 7);
  for (const char byte : begun_message(7, 3, "abc")) {
    CHECK_FALSE(ranks[0].test(receive));
    peer.send(std::string(1, byte));
  }
  await([&] { return ranks[0].test(receive); }, "the message does not come");
  CHECK(room == "abc");
}

TEST_CASE("tcp: a peer that closes in the middle of a message is no error, and its receive stays open") {
  const bool is_cancelled_before = GENERATE(false, true);
  const std::string part = GENERATE("", "some bytes", "in the header");
  TcpRanks ranks(2);
  ranks.open(0);
  ProvedPeer peer(ranks, 0);
  peer.greet(Note{"rank 1"});
  std::string room(100, '.');
  TcpOperation receive = ranks[0].receive(room_in(room), 1, 3);
  TcpOperation never = ranks[0].send(bytes_of("unread"), 1, 3);
  const std::string begun = begun_message(3, 100, part);
  peer.send(part == "in the header" ? begun.substr(0, 7) : begun);
  if (is_cancelled_before) {
    await([&] { return ranks[0].test(never); }, "the connection is not used");
    ranks[0].cancel(receive);
  }
  peer.close();
  await([&] { return ranks[0].probe(), !ranks[0].trouble(1).empty(); }, "the end is not seen");
  CHECK_THAT(ranks[0].trouble(1), StartsWith("the TCP connection to rank 1 is over: "));
  CHECK(ranks[0].test(receive) == is_cancelled_before);
  TcpOperation late = ranks[0].send(bytes_of("late"), 1, 3);
  CHECK_FALSE(ranks[0].test(late));
  ranks[0].cancel(receive);
  CHECK(ranks[0].test(receive));
  CHECK_FALSE(ranks[0].probe());
}

TEST_CASE("tcp: a header with an absurd length ends the connection") {
  const std::uint64_t bytes = GENERATE((std::uint64_t{1} << 30U) + 1, std::numeric_limits<std::uint64_t>::max());
  TcpRanks ranks(2);
  ranks.open(0);
  ProvedPeer peer(ranks, 0);
  peer.send(encode(Note{"rank 1"}) + begun_message(3, bytes, ""));
  await([&] { return ranks[0].probe(), !ranks[0].trouble(1).empty(); }, "the header is taken");
  CHECK(ranks[0].trouble(1) == "the TCP connection to rank 1 is over: it sent bytes that are not a valid message");
  CHECK(peer.is_refused());
}

TEST_CASE("tcp: a message that came before the connection broke is received, though a send found the end first") {
  TcpRanks ranks(2);
  ranks.open(0);
  ProvedPeer peer(ranks, 0);
  peer.greet(Note{"rank 1"});
  TcpOperation first = ranks[0].send(bytes_of("unread"), 1, 3);
  await([&] { return ranks[0].test(first); }, "the connection is not used");
  std::string room(4, '.');
  TcpOperation receive = ranks[0].receive(room_in(room), 1, 3);
  peer.send(begun_message(3, 4, "last"));
  peer.close();  // with bytes that it has not read, so that the connection is reset
  TcpOperation second = ranks[0].send(bytes_of("late"), 1, 3);
  ranks[0].send(bytes_of("later"), 1, 3);
  await([&] { return ranks[0].test(receive); }, "the message is lost");
  CHECK(room == "last");
  CHECK_FALSE(ranks[0].test(second));
  await([&] { return ranks[0].probe(), !ranks[0].trouble(1).empty(); }, "the end is not seen");
}

TEST_CASE("tcp: a rank that reads nothing for a long time keeps its connections") {
  base::FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
  base::FileDescriptor sender(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(sender.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
  const base::FileDescriptor reader(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  // The control plane has a limit of 40 s. This test does not wait so long.
  const unsigned limit_ms = 300;
  REQUIRE(::setsockopt(sender.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms) == 0);
  ::fcntl(sender.get(), F_SETFL, O_NONBLOCK);
  ByteStream stream({.socket = std::move(sender), .received = {}, .unsent = {}});
  const std::string sent = random_text(std::size_t{32} << 20, 5);
  std::size_t written = stream.write(bytes_of(sent), {});
  CHECK(written < sent.size());
  pollfd hang_up{stream.descriptor(), 0, 0};
  CHECK(::poll(&hang_up, 1, 3000) == 0);
  std::string got;
  std::array<char, 65536> part{};
  await(
      [&] {
        written += stream.write(bytes_of(sent).subspan(written), {});
        const ssize_t count = ::recv(reader.get(), part.data(), part.size(), 0);
        if (count > 0) got.append(part.data(), static_cast<std::size_t>(count));
        return got.size() == sent.size() || !stream.broken().empty();
      },
      "not all bytes have come");
  CHECK(stream.broken().empty());
  CHECK((got == sent));
}

TEST_CASE("tcp: texts about missing connections name the rank, its addresses, and the reason") {
  TcpRanks ranks(3);
  ranks.open(1);
  ranks[1].probe();
  CHECK(ranks[1].trouble(0) == "rank 0 has not published its addresses for TCP, or this host does not see them yet");
  CHECK(ranks[1].trouble(1).empty());
  CHECK(ranks[1].trouble(2) ==
        fmt::format("rank 2 has made no TCP connection to {}: it has begun no call, or its host cannot reach these "
                    "addresses (docs/clusters.md)",
                    ranks.published_by(1).second));
  ranks.open(2);
  check_way(ranks, 1, 2);  // though rank 0 is missing
  CHECK(ranks[2].trouble(0) == "rank 0 has not published its addresses for TCP, or this host does not see them yet");

  ranks.open(0);
  ranks.close(0);
  const std::string closed = ranks.published_by(0).second;
  const auto addresses = control::link::parse_addresses(closed);
  const auto refused = [&] {
    std::string text = "rank 1 cannot connect to rank 0 over TCP: ";
    for (std::size_t i = 0; i < addresses.size(); ++i)
      text += fmt::format("{}{}: Connection refused", i == 0 ? "" : "; ", to_string(addresses[i]));
    return text + " (hosts of ranks have to accept TCP from each other: docs/clusters.md)";
  };
  CHECK_FALSE(ranks[1].is_out_of_reach(0));
  ranks.work_until([&] { return ranks[1].trouble(0) == refused(); }, "not refused by each address");
  CHECK(ranks[1].is_out_of_reach(0));

  CHECK(ranks[1].trouble(2).empty());
  CHECK(ranks[2].trouble(1).empty());
  ranks.close(2);
  ranks.work_until([&] { return !ranks[1].trouble(2).empty(); }, "the end is not seen");
  CHECK(ranks[1].trouble(2) == "the TCP connection to rank 2 is over: its end of the connection is closed");
}

TEST_CASE("tcp: a rank whose process does not answer is not out of reach") {
  TcpRanks ranks(2);
  ranks.open(0);
  ranks.open(1);
  await(
      [&] {
        ranks[1].probe();
        return ranks[1].trouble(0).starts_with("rank 1 cannot connect to rank 0") && !ranks[1].is_out_of_reach(0);
      },
      "rank 0 is out of reach");
}

TEST_CASE("tcp: the error of a late call says what is wrong with the connection") {
  const ScratchDirectory directory;
  control::ControlPage control = control::ControlPage::anonymous(2);
  const fabric::FabricContext context{
      .control = &control, .epoch = [] { return 1; }, .timeout = std::chrono::milliseconds(20), .rank = 1};
  const auto world =
      fabric::MessageFabric("tcp", context,
                            std::make_unique<TcpTransport>(rendezvous::FileStore(directory.path(), "nonce", 1), 1, 2))
          .join();
  const std::string text = thrown_by<control::DeadlineExceeded>([&] { world->barrier(); });
  CHECK_THAT(text, EndsWith("; rank 0 has not published its addresses for TCP, or this host does not see them yet"));
  control.doom({0, control::AbortReason::deadline, text});  // or the farewell waits for rank 0
}

TEST_CASE("tcp: ranks find each other on a file system that shows files late, and parts of them") {
  const unsigned seed = GENERATE(1U, 2U, 3U);
  constexpr int size = 4;
  FileServer server;
  TcpRanks ranks(size, [&](int rank) {
    return rendezvous::FileStore("/shared", "nonce", rank,
                                 std::make_shared<LateFiles>(server, 4, 100 * seed + static_cast<unsigned>(rank)));
  });
  for (int rank = size - 1; rank >= 0; --rank) {
    ranks.open(rank);
    // Each rank looks before the ranks that it looks for are there.
    for (int look = 0; look < 3; ++look) ranks[rank].probe();
  }
  for (int from = 0; from < size; ++from) {
    for (int to = 0; to < size; ++to) {
      if (from != to) check_way(ranks, from, to);
    }
  }
}

TEST_CASE("tcp: the doom of a rank that was killed releases its peers, and they report no error of a socket") {
  const int victim = GENERATE(0, 2);
  constexpr int size = 4;
  const Body dying = [victim](Side& side) {
    const fabric::FabricContext context{.control = &side.control,
                                        .epoch = [&side] { return side.epoch.load(); },
                                        .timeout = std::chrono::seconds(60),
                                        .rank = side.rank};
    fabric::MessageFabric over_tcp(
        "tcp", context,
        std::make_unique<TcpTransport>(
            rendezvous::FileStore(side.directory + "/store", "nonce", side.rank).with_prefix("tcp/"), side.rank,
            side.size));
    const std::shared_ptr<Group> world = over_tcp.join();
    world->barrier();
    const std::string text = thrown_by<control::Released>([&] {
      for (int call = 0;; ++call) {
        world->all_to_all(iota(0, side.size * 50'000));
        if (side.rank == victim && call == 3) ::raise(SIGKILL);
      }
    });
    expect_contains(text, "signal 9");
    expect(text.find("TCP") == std::string::npos, text);
    // The destructors of the group and the fabric do not wait for the dead rank.
  };
  std::vector<std::string> expected = all_well(size);
  expected[static_cast<std::size_t>(victim)] = "signal 9";
  const auto start = std::chrono::steady_clock::now();
  CHECK(run_processes(size, dying) == expected);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(20));
}

TEST_CASE("tcp: a rank does not wait at its end for one whose connection is lost") {
  const int self = GENERATE(0, 1), peer = 1 - self;
  const ScratchDirectory directory;
  const auto store_of = [&](int rank) { return rendezvous::FileStore(directory.path(), "nonce", rank); };
  TcpRanks ranks(2, store_of);
  ranks.open(peer);
  auto messenger = std::make_unique<fabric::messages::Messenger>(
      std::make_unique<TcpTransport>(store_of(self), self, 2), [] { return false; });
  std::string room(5, '.');
  messenger->receive(room_in(room), peer, 7);
  TcpOperation send = ranks[peer].send(bytes_of("hello"), self, 7);
  await([&] { return messenger->advance(), ranks[peer].test(send) && !messenger->has_operations(); }, "no message");
  ranks.close(peer);
  const auto began = std::chrono::steady_clock::now();
  messenger.reset();
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(4));  // the limit is 5 s
}

TEST_CASE("tcp: a rank that looks at its port seldom is found") {
  TcpRanks ranks(2);
  ranks.open_all();
  std::string room(5, '.');
  TcpOperation send = ranks[1].send(bytes_of("hello"), 0, 7), receive = ranks[0].receive(room_in(room), 1, 7);
  auto next = std::chrono::steady_clock::now();
  await(
      [&] {
        ranks[1].test(send);
        if (std::chrono::steady_clock::now() < next) return false;
        next = std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
        return ranks[0].test(receive);
      },
      "no connection");
  CHECK(room == "hello");
}

namespace {

/// While it lives, this process may have so many open files.
class OpenFiles {
 public:
  explicit OpenFiles(rlim_t most) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit now{.rlim_cur = most, .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &now) == 0);
  }
  ~OpenFiles() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  OpenFiles(const OpenFiles&) = delete;
  OpenFiles& operator=(const OpenFiles&) = delete;

  static rlim_t most() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_max;
  }
  static rlim_t now() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
  }
  static int first_free() { return base::FileDescriptor(::dup(0)).get(); }

 private:
  rlimit before_{};
};

}  // namespace

TEST_CASE("tcp: a rank raises its limit of open files for two connections to each rank") {
  const OpenFiles few(static_cast<rlim_t>(OpenFiles::first_free() + 20));
  TcpRanks ranks(100);
  const int first_free = OpenFiles::first_free();
  ranks.open(0);
  CHECK(OpenFiles::now() >= static_cast<rlim_t>(first_free + 200));
}

TEST_CASE("tcp: a rank whose limit of open files is too low says what it needs") {
  const Body body = [](Side& side) {
    const rlimit low{.rlim_cur = 200, .rlim_max = 200};
    expect(::setrlimit(RLIMIT_NOFILE, &low) == 0, "no limit");
    const std::string text =
        thrown_by<std::runtime_error>([&] { TcpTransport(rendezvous::FileStore(side.directory, "nonce", 3), 3, 100); });
    expect(text.starts_with("rank 3 of 100 needs "), text);
    const std::string needed = text.substr(20, text.find(' ', 20) - 20);
    expect(
        text == fmt::format("rank 3 of 100 needs {0} open files for TCP connections, the limit is 200: raise it with "
                            "`ulimit -n {0}`",
                            needed),
        text);
  };
  CHECK(run_processes(1, body) == all_well(1));
}

TEST_CASE("tcp: a rank that had no free descriptor takes the connections that waited") {
  TcpRanks ranks(2);
  ranks.open(0);
  const base::FileDescriptor waiting = stranger_of(ranks.published_by(0).second);
  {
    const OpenFiles none(static_cast<rlim_t>(OpenFiles::first_free()));
    for (int turn = 0; turn < 3; ++turn) ranks[0].probe();
  }
  char byte = 0;
  ranks.work_until([&] { return ::recv(waiting.get(), &byte, 1, MSG_DONTWAIT) == 1; }, "it is not taken");
}

TEST_CASE("tcp: a rank keeps as many silent connections as the other ranks may begin at once") {
  constexpr int size = 32, silent = 700;
  if (OpenFiles::most() < 8 * silent) SKIP("this process may not have enough descriptors");
  const OpenFiles many(8 * silent);
  TcpRanks ranks(size);
  ranks.open(0);
  const std::string addresses = ranks.published_by(0).second;
  std::vector<base::FileDescriptor> kept;
  for (int i = 0; i < silent; ++i) kept.push_back(stranger_of(addresses));
  std::array<char, 256> bytes{};
  const auto receive = [&](const base::FileDescriptor& socket) {
    return ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
  };
  ranks.work_until([&] { return receive(kept.back()) > 0; }, "the last one is not taken");
  CHECK(receive(kept.front()) > 0);
  CHECK(receive(kept.front()) < 0);  // it is open
}

TEST_CASE("tcp: a rank closes its port once all ranks are connected") {
  TcpRanks ranks(3);
  ranks.open_all();
  check_way(ranks, 0, 1);
  const auto addresses = control::link::parse_addresses(ranks.published_by(0).second);
  check_way(ranks, 2, 0);
  for (const control::link::Address& address : addresses) {
    const base::FileDescriptor socket(::socket(address.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CAPTURE(to_string(address));
    CHECK(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.bytes), address.length) != 0);
  }
}

TEST_CASE("tcp: a world of 64 ranks connects all of them") {
  // Each search tries all addresses of a rank at once, and all ranks are in this process.
  if (OpenFiles::most() < 16'000) SKIP("this process may not have the descriptors of 64 ranks");
  const OpenFiles raised(OpenFiles::most());
  const Body body = [](Side& side) {
    side.world->barrier();
    expect(side.world->all_reduce(iota(1, 1)) == iota(static_cast<float>(side.size), 1), "the sum");
    side.world->all_to_all(iota(0, side.size * 10));
  };
  CHECK(run_tcp(64, body, {.timeout = std::chrono::minutes(2)}) == all_well(64));
}

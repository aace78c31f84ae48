// Hubs and links over real sockets, on this machine.
#include "harness/control/flight_ring.hpp"
#include "harness/control/link/acceptor.hpp"
#include "harness/control/link/hub.hpp"
#include "harness/control/link/hub_search.hpp"
#include "harness/control/link/page_link.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace shardproof;
using namespace shardproof::control::link;
using namespace std::chrono_literals;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using control::AbortReason;
using control::ControlPage;

namespace {

using Steady = std::chrono::steady_clock;

double ms_since(control::Deadline start) {
  return std::chrono::duration<double, std::milli>(Steady::now() - start).count();
}

/// A poll loop over anything with a descriptor, a deadline and events.
class Loop {
 public:
  template <class Part>
  void add(Part& part) {
    parts_.push_back(
        {[&] { return part.descriptor(); }, [&] { return part.deadline(); }, [&] { part.handle_events(); }});
  }
  /// Returns false when `done` does not hold in time.
  template <class Done>
  bool until(const Done& done, std::chrono::milliseconds limit = 60s) {
    const auto end = Steady::now() + limit;
    while (!done()) {
      if (Steady::now() >= end) return false;
      std::vector<pollfd> descriptors;
      auto wake = Steady::now() + 5ms;  // `done` may depend on threads of the test
      for (const Part& part : parts_) {
        descriptors.push_back({part.descriptor(), POLLIN, 0});
        if (const auto at = part.deadline()) wake = std::min(wake, *at);
      }
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(wake - Steady::now()).count();
      ::poll(descriptors.data(), descriptors.size(), static_cast<int>(std::max<std::int64_t>(0, left)));
      for (const Part& part : parts_) part.handle_events();
    }
    return true;
  }

 private:
  struct Part {
    std::function<int()> descriptor;
    std::function<std::optional<control::Deadline>()> deadline;
    std::function<void()> handle_events;
  };
  std::vector<Part> parts_;
};

constexpr auto a_secret = "the secret of this world";

Hub::Settings hub_for(int world_size, std::chrono::milliseconds silence = 10s) {
  return {.core = {.world_size = world_size, .silence_limit = silence}, .secret = a_secret};
}

struct Host {
  Host(const std::string& addresses, int world_size, std::vector<int> ranks, std::chrono::milliseconds silence = 10s,
       bool watches = false, const std::string& secret = a_secret)
      : page(ControlPage::anonymous(world_size)),
        link(page, {.addresses = addresses,
                    .secret = secret,
                    .hello = {.world_size = world_size,
                              .host = ranks.empty() ? "launcher" : fmt::format("host-of-{}", ranks.front()),
                              .ranks = ranks,
                              .watches = watches},
                    .join_limit = 20s,
                    .silence_limit = silence}) {}
  ControlPage page;
  PageLink link;
};

/// A hub and its hosts in one loop.
struct World {
  explicit World(std::vector<std::vector<int>> ranks, bool with_launcher = false) {
    std::size_t size = 0;
    for (const auto& of_host : ranks) size += of_host.size();
    world_size = static_cast<int>(size);
    hub = std::make_unique<Hub>(hub_for(world_size));
    loop.add(*hub);
    for (auto& of_host : ranks) add(of_host, false);
    if (with_launcher) add({}, true);
  }
  void add(const std::vector<int>& ranks, bool watches) {
    hosts.push_back(std::make_unique<Host>(hub->addresses(), world_size, ranks, 10s, watches));
    loop.add(hosts.back()->link);
  }
  bool start() {
    return loop.until(
        [&] { return std::ranges::all_of(hosts, [](auto& host) { return host->link.side().start().has_value(); }); });
  }
  ControlPage& page_of(int rank) {
    return (*std::ranges::find_if(hosts, [&](auto& host) { return !host->page.is_remote(rank); }))->page;
  }

  int world_size = 0;
  std::unique_ptr<Hub> hub;
  std::vector<std::unique_ptr<Host>> hosts;
  Loop loop;
};

/// A child process that ends with this one.
class Child {
 public:
  explicit Child(const std::function<int()>& body) : pid_(::fork()) {
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    int code = 99;
    try {
      code = body();
    } catch (const std::exception& thrown) {
      fmt::print(stderr, "child: {}\n", thrown.what());
    }
    ::_exit(code);
  }
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void kill(int signal) const { ::kill(pid_, signal); }
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

/// The whole of a host whose link only waits.
int be_a_host(const std::string& addresses, int world_size, std::vector<int> ranks, std::chrono::milliseconds silence,
              const std::string& expected_loss = "") {
  Host host(addresses, world_size, std::move(ranks), silence);
  Loop loop;
  loop.add(host.link);
  loop.until([&] { return host.link.is_over(); });
  if (expected_loss.empty()) return host.link.lost() ? 1 : 0;
  const bool is_right = host.link.lost() && host.link.lost()->find(expected_loss) != std::string::npos &&
                        host.page.doomed() && host.page.doomed()->text == *host.link.lost();
  if (!is_right) fmt::print(stderr, "child: {}\n", host.link.lost().value_or("not lost"));
  return is_right ? 0 : 1;
}

base::FileDescriptor connect_to(const std::string& addresses) {
  const std::vector<Address> all = parse_addresses(addresses);
  const Address& last = all.back();
  base::FileDescriptor socket(::socket(last.bytes.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&last.bytes), last.length) == 0);
  return socket;
}

/// From another address of this machine.
base::FileDescriptor connect_from(const char* source, const std::string& addresses) {
  base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own{};
  own.sin_family = AF_INET;
  REQUIRE(::inet_pton(AF_INET, source, &own.sin_addr) == 1);
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0);
  const Address hub = parse_addresses("127.0.0.1" + addresses.substr(addresses.rfind(':'))).front();
  REQUIRE(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&hub.bytes), hub.length) == 0);
  return socket;
}

/// While it lives, this process has at most so many descriptors.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t most) {
    REQUIRE(::getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit lower{.rlim_cur = most, .rlim_max = before_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_NOFILE, &lower) == 0);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

/// The hub has sent its challenge.
bool has_answer(const base::FileDescriptor& socket) {
  char byte = 0;
  return ::recv(socket.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

/// The hub has closed it.
bool is_closed(const base::FileDescriptor& socket) {
  std::array<char, 256> bytes{};
  while (true) {
    const ssize_t count = ::recv(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count <= 0) return count == 0 || errno == ECONNRESET;
  }
}

}  // namespace

TEST_CASE("addresses of a host are read as they were written") {
  const std::string all = addresses_of_host(4711);
  CHECK_THAT(all, ContainsSubstring("127.0.0.1:4711"));
  std::string again;
  for (const Address& address : parse_addresses(all)) again += (again.empty() ? "" : " ") + to_string(address);
  CHECK(again == all);
  CHECK(to_string(parse_addresses("[::1]:80").front()) == "[::1]:80");
  for (const char* const bad : {"", "  ", "10.0.0.1", "10.0.0.1:", "10.0.0.1:0", "10.0.0.1:70000", "10.0.0.1:8x",
                                "host:80", "[::1:80", "::1:80", "[10.0.0.1]:80"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_addresses(bad), std::invalid_argument);
  }
}

TEST_CASE("a proof depends on the secret, the side and both nonces") {
  const Bytes32 one = fresh_nonce(), two = fresh_nonce();
  CHECK(one != two);
  const Bytes32 proof = prove("s", Side::hub, one, two);
  CHECK(prove("s", Side::hub, one, two) == proof);
  CHECK(prove("t", Side::hub, one, two) != proof);
  CHECK(prove("s", Side::page, one, two) != proof);
  CHECK(prove("s", Side::hub, two, two) != proof);
  CHECK(prove("s", Side::hub, one, one) != proof);
}

TEST_CASE("ranks of several hosts agree, abort with one cause, and leave in order") {
  constexpr std::uint32_t epochs = 60;
  World world({{0, 2}, {1}, {3, 4}, {5}}, true);
  REQUIRE(world.start());
  CHECK(world.hosts[1]->link.side().start()->hosts ==
        std::vector<std::string>{"host-of-0", "host-of-1", "host-of-0", "host-of-3", "host-of-3", "host-of-5"});
  // All clocks of this test are the same.
  CHECK(std::abs(world.hosts[1]->link.side().start()->clock_offset_ns) < 1'000'000'000);

  const auto ranks = static_cast<std::size_t>(world.world_size);
  std::vector<std::vector<std::string>> causes(ranks);
  std::atomic<int> done{0}, wrong{0};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world.world_size; ++rank) {
    threads.emplace_back([&, rank] {
      ControlPage& page = world.page_of(rank);
      const auto self = static_cast<std::size_t>(rank);
      try {
        page.report(rank, {.pid = 1000 + rank});
        for (std::uint32_t epoch = 1; epoch <= epochs; ++epoch) {
          if (epoch % 3 == 0) {
            if (rank % 2 == 1) page.raise_abort(epoch, {rank, AbortReason::failed, fmt::format("{}", rank)});
            try {
              page.await(rank, [] { return false; }, epoch, Steady::now() + 60s, [] { return std::string("late"); });
            } catch (const control::Released&) {
            }
          }
          const auto ballots = page.agree(rank, {epoch * 10ULL + self, ""}, Steady::now() + 60s);
          for (std::size_t other = 0; other < ballots.size(); ++other)
            wrong += ballots[other].value != epoch * 10 + other;
          causes[self].push_back(page.aborted(epoch) ? page.aborted(epoch)->text : "");
        }
        page.report(rank, {.pid = 1000 + rank, .cases_ended = epochs, .left = true});
        page.end_rank({.rank = rank, .last_words = "bye"});
      } catch (const std::exception& thrown) {
        causes[self].emplace_back(thrown.what());
      }
      ++done;
    });
  }
  CHECK(world.loop.until([&] { return done == world.world_size; }));
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(causes[0].size() == epochs);
  for (const auto& of_rank : causes) CHECK(of_rank == causes[0]);

  CHECK(world.loop.until(
      [&] { return std::ranges::all_of(world.hosts, [](auto& host) { return host->link.side().all_ended(); }); }));
  ControlPage& launcher = world.hosts.back()->page;
  for (int rank = 0; rank < world.world_size; ++rank) {
    CHECK(launcher.progress(rank).pid == 1000 + rank);
    CHECK(launcher.progress(rank).left);
    REQUIRE(launcher.rank_end(rank));
    CHECK(launcher.rank_end(rank)->last_words == "bye");
  }
  for (const auto& host : world.hosts) {
    CHECK_FALSE(host->link.lost());
    CHECK_FALSE(host->page.doomed());
    CHECK(host->link.side().lost_hosts().empty());
  }
  // A page leaves by the end of its connection.
  world.hosts.clear();
  Loop alone;
  alone.add(*world.hub);
  CHECK(alone.until([&] { return !world.hub->deadline(); }));
  CHECK_FALSE(world.hub->core().doomed());
}

TEST_CASE("a doom and flight records reach the other hosts") {
  World world({{0}, {1, 2}}, true);
  REQUIRE(world.start());
  Host& launcher = *world.hosts.back();
  world.page_of(2).flight(2).enter(protocol::FlightEntry::What::case_begun, 6, Steady::now());
  launcher.link.send(launcher.link.side().want_flights());
  CHECK(world.loop.until([&] { return !launcher.link.side().awaits_flights(); }));
  CHECK(launcher.link.side().flight_records()[2].last_case() == 6);
  const auto start = Steady::now();
  CHECK(world.page_of(1).doom({1, AbortReason::died, "signal 9"}));
  const auto is_doomed = [](auto& host) { return host->page.doomed().has_value(); };
  CHECK(world.loop.until([&] { return std::ranges::all_of(world.hosts, is_doomed); }));
  CHECK(ms_since(start) < 5000);
  for (const auto& host : world.hosts) CHECK(host->page.doomed()->text == "signal 9");
}

TEST_CASE("a host whose link is killed is named on all others within milliseconds") {
  Hub hub(hub_for(3));
  const std::string addresses = hub.addresses();
  Child killed([&] { return be_a_host(addresses, 3, {1}, 10s); });
  Host first(addresses, 3, {0}), third(addresses, 3, {2});
  Loop loop;
  loop.add(hub);
  loop.add(first.link);
  loop.add(third.link);
  REQUIRE(loop.until([&] { return first.link.side().start() && third.link.side().start(); }));
  killed.kill(SIGKILL);
  const auto start = Steady::now();
  CHECK(loop.until([&] { return first.page.doomed() && third.page.doomed(); }));
  const double took = ms_since(start);
  std::printf("a killed link was known on all hosts after %.2f ms\n", took);
  CHECK(took < 2000);  // far below the limit of silence
  CHECK_THAT(first.page.doomed()->text, StartsWith("host host-of-1 with rank 1 was lost: "));
  CHECK(first.page.doomed()->culprit == 1);
  CHECK(third.page.doomed()->text == first.page.doomed()->text);
  CHECK(third.link.side().lost_hosts().front().host == "host-of-1");
  CHECK(killed.wait() == -SIGKILL);
  // The other ranks end, and their hosts leave in order.
  first.page.end_rank({.rank = 0});
  third.page.end_rank({.rank = 2});
  CHECK(loop.until([&] { return first.link.side().all_ended() && third.link.side().all_ended(); }));
}

TEST_CASE("a host that stops is lost after the limit of silence, and learns that when it goes on") {
  Hub hub(hub_for(2, 1000ms));
  const std::string addresses = hub.addresses();
  Child stopped([&] { return be_a_host(addresses, 2, {1}, 1000ms, "the hub of this world was lost"); });
  Host first(addresses, 2, {0}, 10s);
  Loop loop;
  loop.add(hub);
  loop.add(first.link);
  REQUIRE(loop.until([&] { return first.link.side().start().has_value(); }));
  // A host that answers pings is not lost, however long nothing else happens.
  CHECK_FALSE(loop.until([&] { return first.page.doomed().has_value(); }, 1500ms));
  stopped.kill(SIGSTOP);
  const auto start = Steady::now();
  CHECK(loop.until([&] { return first.page.doomed().has_value(); }));
  CHECK(ms_since(start) > 600);
  CHECK(first.page.doomed()->text == "host host-of-1 with rank 1 was lost: it sent nothing for 1000 ms");
  stopped.kill(SIGCONT);
  int code = -1;
  std::thread waiter([&] { code = stopped.wait(); });
  loop.until([] { return false; }, 300ms);
  waiter.join();
  CHECK(code == 0);
}

TEST_CASE("a hub that dies ends the world of each host") {
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  Child hub_process([&] {
    Hub hub(hub_for(2));
    const std::string addresses = hub.addresses() + "\n";
    if (::write(pipe[1], addresses.data(), addresses.size()) < 0) return 1;
    Loop loop;
    loop.add(hub);
    loop.until([] { return false; });
    return 0;
  });
  std::string addresses;
  for (char byte = 0; ::read(pipe[0], &byte, 1) == 1 && byte != '\n';) addresses += byte;
  Host first(addresses, 2, {0}), second(addresses, 2, {1});
  Loop loop;
  loop.add(first.link);
  loop.add(second.link);
  REQUIRE(loop.until([&] { return first.link.side().start() && second.link.side().start(); }));
  hub_process.kill(SIGKILL);
  CHECK(loop.until([&] { return first.link.is_over() && second.link.is_over(); }));
  CHECK_THAT(first.page.doomed()->text, StartsWith("the hub of this world was lost: "));
  CHECK(second.page.doomed());
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST_CASE("a wrong secret, garbage and silence cost only their own connection") {
  Hub::Settings settings = hub_for(2);
  settings.proof_limit = 300ms;
  Hub hub(settings);
  Loop loop;
  loop.add(hub);
  const base::FileDescriptor garbage = connect_to(hub.addresses()), web = connect_to(hub.addresses()),
                             silent = connect_to(hub.addresses()), early = connect_to(hub.addresses());
  const auto write = [](const base::FileDescriptor& socket, const std::string& bytes) {
    return ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0;
  };
  CHECK(write(garbage, std::string(100'000, '\xff')));
  CHECK(write(web, "GET / HTTP/1.1\r\nHost: hub\r\n\r\n"));
  CHECK(write(early, encode(Hello{.world_size = 2, .host = "x", .ranks = {0, 1}})));
  Host first(hub.addresses(), 2, {0});
  Host wrong(hub.addresses(), 2, {1}, 10s, false, "another secret");
  loop.add(first.link);
  loop.add(wrong.link);
  CHECK(loop.until([&] { return is_closed(garbage) && is_closed(web) && is_closed(early); }));
  CHECK(loop.until([&] { return is_closed(silent); }));
  CHECK_FALSE(wrong.link.side().start());
  CHECK(hub.core().missing() == std::vector{1});
  // The world starts without them.
  Host second(hub.addresses(), 2, {1});
  loop.add(second.link);
  CHECK(loop.until([&] { return first.link.side().start() && second.link.side().start(); }));
  CHECK_FALSE(first.page.doomed());
}

TEST_CASE("a search with a wrong secret says so") {
  Hub hub(hub_for(2));
  Loop loop;
  loop.add(hub);
  const std::string addresses = hub.addresses();
  ReadySet ready;
  HubSearch search(addresses.substr(addresses.rfind(' ') + 1), "another secret", Steady::now() + 10s, ready, 0);
  CHECK(loop.until([&] {
    CHECK_FALSE(search.advance(Steady::now()));
    return !search.answers().ends_with("no answer");
  }));
  CHECK_THAT(search.answers(), ContainsSubstring("it did not take this host's proof: it may have another secret"));
}

TEST_CASE("a flood from one address pushes out no stranger of another address") {
  Hub hub(hub_for(2));
  Loop loop;
  loop.add(hub);
  const DescriptorLimit limit(1024);  // 256 strangers
  const base::FileDescriptor other = connect_from("127.0.0.2", hub.addresses());
  std::vector<base::FileDescriptor> flood;
  for (int i = 0; i < 300; ++i) flood.push_back(connect_to(hub.addresses()));
  CHECK(loop.until([&] { return is_closed(flood.front()); }, 5s));
  CHECK_FALSE(is_closed(other));
  CHECK_FALSE(is_closed(flood.back()));
  // A host that knows the secret still joins from the address of the flood.
  Host first(hub.addresses(), 2, {0});
  loop.add(first.link);
  CHECK(loop.until([&] { return hub.core().missing() == std::vector{1}; }));
}

TEST_CASE("a flood pushes out no peer that has proved the secret and said nothing yet") {
  Hub hub(hub_for(2));
  Loop loop;
  loop.add(hub);
  const DescriptorLimit limit(1024);
  const std::string addresses = hub.addresses();
  ReadySet ready;
  HubSearch search(addresses.substr(addresses.rfind(' ') + 1), a_secret, Steady::now() + 10s, ready, 0);
  std::optional<Connection> peer;
  REQUIRE(loop.until([&] { return (peer = search.advance(Steady::now())).has_value(); }));
  std::vector<base::FileDescriptor> flood;
  for (int i = 0; i < 300; ++i) flood.push_back(connect_to(addresses));
  CHECK(loop.until([&] { return is_closed(flood.front()) && has_answer(flood.back()); }, 5s));
  CHECK(peer->exchange().empty());
  CHECK_FALSE(peer->over());
}

TEST_CASE("a flood leaves most descriptors to the process of the hub") {
  Hub hub(hub_for(2));
  Loop loop;
  loop.add(hub);
  std::vector<base::FileDescriptor> flood;
  for (int i = 0; i < 150; ++i) flood.push_back(connect_to(hub.addresses()));
  const auto last = static_cast<rlim_t>(flood.back().get());
  const auto [most, strangers] = GENERATE_COPY(std::pair<rlim_t, int>(256, 64), std::pair<rlim_t, int>(last + 6, 5));
  bool has_answered_last = false;
  {
    const DescriptorLimit limit(most);
    has_answered_last = loop.until([&] { return has_answer(flood.back()); }, 5s);
  }
  CHECK(has_answered_last);
  CHECK(std::ranges::count_if(flood, [](const auto& one) { return !is_closed(one); }) == strangers);
}

namespace {

/// The other side of a connection to an acceptor. A test decides when it reads.
struct AcceptorPeer {
  explicit AcceptorPeer(const Acceptor& acceptor)
      : connection(connect_without_blocking(acceptor.addresses()), Side::page, a_secret) {}
  static base::FileDescriptor connect_without_blocking(const std::string& addresses) {
    base::FileDescriptor socket = connect_to(addresses);
    REQUIRE(::fcntl(socket.get(), F_SETFL, O_NONBLOCK) == 0);
    return socket;
  }
  bool is_proved_or_over() {
    connection.exchange();
    return connection.is_proved() || connection.over();
  }
  Connection connection;
};

}  // namespace

TEST_CASE("an acceptor gives its owner the first message, and leaves what came after it") {
  Acceptor acceptor({.secret = a_secret});
  Loop loop;
  loop.add(acceptor);
  AcceptorPeer peer(acceptor);
  REQUIRE(loop.until([&] { return peer.is_proved_or_over(); }));
  CHECK(acceptor.take_arrivals().empty());
  peer.connection.send(Note{"first"});
  peer.connection.send(Note{"second"});
  peer.connection.flush();
  const std::string raw = "\xff\xff\xff\xff no message";
  REQUIRE(::send(peer.connection.descriptor(), raw.data(), raw.size(), MSG_NOSIGNAL) > 0);
  std::vector<Acceptor::Arrival> arrivals;
  REQUIRE(loop.until([&] { return !(arrivals = acceptor.take_arrivals()).empty(); }));
  REQUIRE(arrivals.size() == 1);
  CHECK(std::get<Note>(arrivals.front().first).text == "first");
  Connection& connection = arrivals.front().connection;
  CHECK_FALSE(connection.over());
  CHECK(acceptor.take_arrivals().empty());
  CHECK_FALSE(acceptor.deadline());  // it has forgotten the connection
  CHECK_FALSE(acceptor.drop_stranger());
  const auto has_events = [](int descriptor, int limit_ms) {
    pollfd one{descriptor, POLLIN, 0};
    return ::poll(&one, 1, limit_ms) == 1;
  };
  REQUIRE(::send(peer.connection.descriptor(), "", 1, MSG_NOSIGNAL) == 1);
  REQUIRE(has_events(connection.descriptor(), 60'000));
  CHECK_FALSE(has_events(acceptor.descriptor(), 0));
  std::optional<Message> second;
  REQUIRE(loop.until([&] { return (second = connection.exchange_one()).has_value(); }));
  CHECK(std::get<Note>(*second).text == "second");
  auto [socket, rest, unsent] = std::move(connection).release();
  CHECK(unsent.empty());
  CHECK(loop.until([&] {
    std::array<char, 64> bytes{};
    const ssize_t count = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (count > 0) rest.append(bytes.data(), static_cast<std::size_t>(count));
    return rest.size() > raw.size();
  }));
  CHECK(rest == raw + '\0');
}

TEST_CASE("an acceptor gives its owner the message of a peer that closed after it") {
  Acceptor acceptor({.secret = a_secret});
  Loop loop;
  loop.add(acceptor);
  std::optional<AcceptorPeer> peer(acceptor);
  REQUIRE(loop.until([&] { return peer->is_proved_or_over(); }));
  peer->connection.send(Note{"farewell"});
  peer->connection.flush();
  peer.reset();
  std::vector<Acceptor::Arrival> arrivals;
  REQUIRE(loop.until([&] { return !(arrivals = acceptor.take_arrivals()).empty(); }));
  Connection& connection = arrivals.front().connection;
  CHECK(loop.until([&] { return connection.exchange().empty() && connection.over(); }));
  CHECK(*connection.over() == "its end of the connection is closed");
}

TEST_CASE("an acceptor keeps a peer that has proved the secret, however long it says nothing") {
  Acceptor acceptor({.secret = a_secret, .proof_limit = 500ms});
  Loop loop;
  loop.add(acceptor);
  AcceptorPeer peer(acceptor);
  REQUIRE(loop.until([&] { return peer.is_proved_or_over(); }));
  REQUIRE(peer.connection.is_proved());
  CHECK_FALSE(acceptor.drop_stranger());  // it is not a stranger
  CHECK_FALSE(acceptor.deadline());
  CHECK_FALSE(loop.until([&] { return peer.connection.exchange(), peer.connection.over().has_value(); }, 600ms));
  peer.connection.send(Note{"late"});
  peer.connection.flush();
  std::vector<Acceptor::Arrival> arrivals;
  REQUIRE(loop.until([&] { return !(arrivals = acceptor.take_arrivals()).empty(); }));
  CHECK(std::get<Note>(arrivals.front().first).text == "late");
}

TEST_CASE("an acceptor whose owner was away until the limit keeps a peer that had sent its proof") {
  Acceptor acceptor({.secret = a_secret, .proof_limit = 200ms});
  AcceptorPeer peer(acceptor);
  Loop loop;
  loop.add(acceptor);
  REQUIRE(loop.until([&] { return acceptor.deadline().has_value(); }));
  pollfd challenge{peer.connection.descriptor(), POLLIN, 0};
  REQUIRE(::poll(&challenge, 1, 60'000) == 1);
  peer.connection.exchange();  // sends the proof
  std::this_thread::sleep_until(*acceptor.deadline());  // the owner is away
  acceptor.handle_events();
  REQUIRE(loop.until([&] { return peer.is_proved_or_over(); }));
  REQUIRE(peer.connection.is_proved());
}

TEST_CASE("an acceptor without a free descriptor pauses, and then takes the connections that wait and new ones") {
  Acceptor acceptor({.secret = a_secret, .proof_limit = 1h});
  const base::FileDescriptor first = connect_to(acceptor.addresses()), second = connect_to(acceptor.addresses());
  pollfd events{acceptor.descriptor(), POLLIN, 0};
  REQUIRE(::poll(&events, 1, 60'000) == 1);
  {
    const DescriptorLimit none(static_cast<rlim_t>(base::FileDescriptor(::dup(0)).get()));
    acceptor.handle_events();
  }
  CHECK_FALSE(has_answer(first));
  CHECK(::poll(&events, 1, 0) == 0);  // the owner's loop does not turn without a pause
  REQUIRE(acceptor.deadline());
  CHECK(*acceptor.deadline() < Steady::now() + 1s);
  Loop loop;
  loop.add(acceptor);
  CHECK(loop.until([&] { return has_answer(first) && has_answer(second); }));
  const base::FileDescriptor third = connect_to(acceptor.addresses());
  REQUIRE(::poll(&events, 1, 60'000) == 1);
  acceptor.handle_events();
  CHECK(has_answer(third));
}

TEST_CASE("peers that have proved the secret do not count as strangers of their address") {
  Acceptor acceptor({.secret = a_secret, .most_strangers = 4});
  Loop loop;
  loop.add(acceptor);
  std::vector<std::unique_ptr<AcceptorPeer>> proved;
  for (int i = 0; i < 6; ++i) {
    proved.push_back(std::make_unique<AcceptorPeer>(acceptor));
    REQUIRE(loop.until([&] { return proved.back()->is_proved_or_over(); }));
  }
  const base::FileDescriptor stranger = connect_from("127.0.0.1", acceptor.addresses());
  REQUIRE(loop.until([&] { return has_answer(stranger); }));
  std::vector<base::FileDescriptor> flood;
  for (int i = 0; i < 5; ++i) flood.push_back(connect_from("127.0.0.2", acceptor.addresses()));
  REQUIRE(loop.until([&] { return has_answer(flood.back()); }));
  CHECK_FALSE(is_closed(stranger));
  CHECK(is_closed(flood.front()));
  for (const auto& peer : proved) CHECK((peer->connection.exchange().empty() && !peer->connection.over()));
}

TEST_CASE("an acceptor forgets a peer whose connection ends, before and after its proof") {
  Acceptor acceptor({.secret = a_secret, .proof_limit = 1h});
  Loop loop;
  loop.add(acceptor);
  const auto first_free = [] { return base::FileDescriptor(::dup(0)).get(); };
  const int before = first_free();
  {
    AcceptorPeer proved(acceptor);
    REQUIRE(loop.until([&] { return proved.is_proved_or_over(); }));
    const base::FileDescriptor stranger = connect_to(acceptor.addresses());
    REQUIRE(loop.until([&] { return has_answer(stranger); }));
  }
  CHECK(loop.until([&] { return first_free() == before && !acceptor.deadline(); }));
}

TEST_CASE("an acceptor takes a part of a flood in each turn of its owner") {
  Acceptor acceptor({.secret = a_secret});
  std::vector<base::FileDescriptor> flood;
  for (int i = 0; i < 150; ++i) flood.push_back(connect_to(acceptor.addresses()));
  acceptor.handle_events();
  const auto answered = std::ranges::count_if(flood, has_answer);
  CHECK((answered > 0 && answered < 150));
  Loop loop;
  loop.add(acceptor);
  CHECK(loop.until([&] { return has_answer(flood.back()); }));
}

TEST_CASE("a hub refuses ranks twice and worlds of another size, and says why") {
  Hub hub(hub_for(2));
  Loop loop;
  loop.add(hub);
  Host first(hub.addresses(), 2, {0}), other_size(hub.addresses(), 3, {1});
  loop.add(first.link);
  loop.add(other_size.link);
  CHECK(loop.until([&] { return other_size.link.is_over() && hub.core().missing().size() == 1; }));
  Host again(hub.addresses(), 2, {0});
  loop.add(again.link);
  CHECK(loop.until([&] { return again.link.is_over(); }));
  CHECK_THAT(*again.link.lost(), ContainsSubstring("host host-of-0 has rank 0, and so has host host-of-0; start each "
                                                   "rank once"));
  CHECK_THAT(*other_size.link.lost(), ContainsSubstring("in a world of 3 ranks, and this hub has one of 2"));
  CHECK_FALSE(first.page.doomed());
}

TEST_CASE("an address that refuses at first is tried again, also while another address never answers") {
  const auto listen_here = [](sockaddr_in& address) {
    base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0);
    REQUIRE(::listen(socket.get(), 8) == 0);
    REQUIRE(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &length) == 0);
    return socket;
  };
  sockaddr_in silent_address{}, busy_address{};
  const base::FileDescriptor silent = listen_here(silent_address), busy = listen_here(busy_address);
  const auto accept_one = [&busy] {
    return base::FileDescriptor(::accept4(busy.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  };
  ReadySet ready;
  HubSearch search(
      fmt::format("127.0.0.1:{} 127.0.0.1:{}", ntohs(silent_address.sin_port), ntohs(busy_address.sin_port)), "s",
      Steady::now() + 60s, ready, 1);
  accept_one();  // and closes it
  bool is_proved = false;
  std::thread hub([&] {
    Connection connection(accept_one(), Side::hub, "s");
    while (!connection.is_proved() && !connection.over()) {
      pollfd one{connection.descriptor(), POLLIN, 0};
      ::poll(&one, 1, 100);
      connection.exchange();
    }
    is_proved = connection.is_proved();
  });
  std::optional<Connection> found;
  while (!found && !search.has_failed(Steady::now())) {
    pollfd one{ready.descriptor(), POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(search.deadline() - Steady::now()).count();
    ::poll(&one, 1, static_cast<int>(std::max<std::int64_t>(0, left)));
    found = search.advance(Steady::now());
  }
  CHECK(found);
  if (!found) {  // ends the wait of the other side
    base::FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&busy_address), sizeof busy_address);
  }
  hub.join();
  CHECK(is_proved);
}

TEST_CASE("a link that finds no hub says which addresses it tried") {
  std::string closed;
  {
    const Hub hub(hub_for(1));
    closed = hub.addresses();
  }
  ControlPage page = ControlPage::anonymous(1);
  PageLink link(
      page,
      {.addresses = closed, .secret = "s", .hello = {.world_size = 1, .host = "h", .ranks = {0}}, .join_limit = 300ms});
  Loop loop;
  loop.add(link);
  CHECK(loop.until([&] { return link.is_over(); }));
  CHECK_THAT(*link.lost(), StartsWith("the hub of this world was lost: it cannot be reached: "));
  CHECK_THAT(*link.lost(), ContainsSubstring("127.0.0.1:"));
  CHECK_THAT(*link.lost(), ContainsSubstring("Connection refused"));
  CHECK(page.doomed());
}

namespace {

bool run(const std::string& command) { return std::system((command + " >/dev/null 2>&1").c_str()) == 0; }

/// Two hosts, each a process in a network namespace. The interface between them goes down. Exit codes: 77 skips.
int hosts_without_network() {
  if (::unshare(CLONE_NEWNET) != 0 || !run("ip link set lo up")) return 77;
  std::array<int, 2> ready{}, addresses_of_hub{};
  if (::pipe(ready.data()) != 0 || ::pipe(addresses_of_hub.data()) != 0) return 77;
  Child other([&] {
    if (::unshare(CLONE_NEWNET) != 0) return 3;
    char byte = 'r';
    if (::write(ready[1], &byte, 1) != 1) return 4;
    std::string addresses;
    while (::read(addresses_of_hub[0], &byte, 1) == 1 && byte != '\n') addresses += byte;
    if (!run("ip addr add 10.97.0.2/24 dev shp1 && ip link set shp1 up && ip link set lo up")) return 5;
    return be_a_host(addresses, 2, {1}, 1000ms, "it sent nothing for 1000 ms");
  });
  char byte = 0;
  if (::read(ready[0], &byte, 1) != 1 ||
      !run(fmt::format("ip link add shp0 type veth peer name shp1 netns {}", other.pid())) ||
      !run("ip addr add 10.97.0.1/24 dev shp0 && ip link set shp0 up")) {
    return 77;
  }
  Hub hub(hub_for(2, 1000ms));
  const std::string addresses = hub.addresses() + "\n";
  if (addresses.find("10.97.0.1:") == std::string::npos) return 6;
  if (::write(addresses_of_hub[1], addresses.data(), addresses.size()) < 0) return 7;
  Host first(hub.addresses(), 2, {0});
  Loop loop;
  loop.add(hub);
  loop.add(first.link);
  if (!loop.until([&] { return first.link.side().start().has_value(); }, 20s)) return 8;
  if (!run("ip link set shp0 down")) return 9;
  const auto start = Steady::now();
  if (!loop.until([&] { return first.page.doomed().has_value(); }, 20s)) return 10;
  std::printf("a host without network was lost after %.0f ms, with a limit of 1000 ms\n", ms_since(start));
  if (first.page.doomed()->text != "host host-of-1 with rank 1 was lost: it sent nothing for 1000 ms") {
    fmt::print(stderr, "{}\n", first.page.doomed()->text);
    return 11;
  }
  return other.wait() == 0 ? 0 : 12;
}

}  // namespace

TEST_CASE("a host whose network goes down is lost after the limit of silence, on both sides") {
  if (::geteuid() != 0) SKIP("only root makes network namespaces");
  Child test(hosts_without_network);
  const int code = test.wait();
  if (code == 77) SKIP("this machine makes no network namespaces with a pair of interfaces");
  CHECK(code == 0);
}

#include "bench/scale/linked_hosts.hpp"

#include <fmt/format.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "harness/control/link/hub.hpp"
#include "harness/control/link/page_link.hpp"

namespace shardproof::bench {

using namespace control::link;
using control::ControlPage;

namespace {

/// Bytes that have arrived at all TCP sockets of this process.
std::uint64_t bytes_received() {
  std::uint64_t sum = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(std::stoi(entry.path().filename().string()), IPPROTO_TCP, TCP_INFO, &info, &size) == 0)
      sum += info.tcpi_bytes_received;
  }
  return sum;
}

struct Host {
  Host(const std::string& addresses, int world_size, const std::string& name, const std::vector<int>& of_host)
      : ranks(of_host),
        page(ControlPage::anonymous(world_size)),
        link(page, {.addresses = addresses,
                    .secret = "secret",
                    .hello = {.world_size = world_size, .host = name, .ranks = of_host, .watches = of_host.empty()},
                    .silence_limit = std::chrono::seconds(60)}) {}
  std::vector<int> ranks;
  ControlPage page;
  PageLink link;
};

}  // namespace

std::uint64_t bytes_of_real_agreement(int hosts, int ranks_of_each) {
  const int size = hosts * ranks_of_each;
  Hub hub({.core = {.world_size = size, .silence_limit = std::chrono::seconds(60)}, .secret = "secret"});
  std::vector<std::unique_ptr<Host>> all;
  for (int host = 0; host <= hosts; ++host) {
    std::vector<int> ranks;
    for (int rank = 0; host < hosts && rank < ranks_of_each; ++rank) ranks.push_back(host * ranks_of_each + rank);
    all.push_back(std::make_unique<Host>(hub.addresses(), size, fmt::format("host{}", host), ranks));
  }
  const auto handle_until = [&](const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!done()) {
      if (std::chrono::steady_clock::now() >= limit)
        throw std::runtime_error("the hosts of this machine did not finish in time");
      std::vector<pollfd> descriptors{{hub.descriptor(), POLLIN, 0}};
      for (const auto& host : all) descriptors.push_back({host->link.descriptor(), POLLIN, 0});
      ::poll(descriptors.data(), descriptors.size(), 5);
      hub.handle_events();
      for (const auto& host : all) host->link.handle_events();
    }
  };
  handle_until(
      [&] { return std::ranges::all_of(all, [](auto& host) { return host->link.side().start().has_value(); }); });

  constexpr int measurements = 7;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (int round = 1; round <= measurements; ++round) {
    const std::uint64_t before = bytes_received();
    std::vector<std::thread> ranks;
    for (const auto& host : all) {
      for (const int rank : host->ranks)
        ranks.emplace_back([&host, rank] {
          host->page.agree(rank, {.value = 1, .text = {}},
                           std::chrono::steady_clock::now() + std::chrono::seconds(120));
        });
    }
    const auto wanted = static_cast<std::uint64_t>(round);
    handle_until([&] { return std::ranges::all_of(all, [&](auto& host) { return host->page.decided() == wanted; }); });
    for (std::thread& rank : ranks) rank.join();
    least = std::min(least, bytes_received() - before);
  }
  return least;
}

}  // namespace shardproof::bench

#include "harness/protocol/placement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <utility>

#include "harness/base/rank_list.hpp"

namespace shardproof {

namespace {

constexpr std::size_t hosts_shown = 3;

}  // namespace

Placement::Placement(std::vector<PlacedHost> hosts) : hosts_(std::move(hosts)) {
  const auto refuse = [](const std::string& why) { throw std::invalid_argument("hosts: " + why); };
  std::set<int> ranks;
  std::set<std::string_view> ids;
  int first = -1;
  for (const PlacedHost& host : hosts_) {
    if (host.ranks.empty()) refuse(fmt::format("no rank is on {}", host.name));
    if (!ids.insert(host.id).second) refuse(fmt::format("the id {} is listed twice", host.id));
    for (const int rank : host.ranks) {
      if (!ranks.insert(rank).second) refuse(fmt::format("rank {} is listed twice", rank));
    }
    if (!std::ranges::is_sorted(host.ranks)) refuse(fmt::format("the ranks of {} are not ascending", host.name));
    if (host.ranks.front() < first) refuse(fmt::format("{} is not in the order of first ranks", host.name));
    first = host.ranks.front();
  }
}

std::size_t Placement::add(int rank, std::string_view name, std::string_view id) {
  auto host = std::ranges::find(hosts_, id, &PlacedHost::id);
  if (host == hosts_.end())
    host = hosts_.insert(hosts_.end(), {.name = std::string(name), .id = std::string(id), .ranks = {}});
  host->ranks.push_back(rank);
  return static_cast<std::size_t>(host - hosts_.begin());
}

const PlacedHost* Placement::find(int rank) const {
  const auto host = std::ranges::find_if(
      hosts_, [rank](const PlacedHost& one) { return std::ranges::binary_search(one.ranks, rank); });
  return host == hosts_.end() ? nullptr : &*host;
}

const PlacedHost& Placement::host_of(int rank) const {
  const PlacedHost* const host = find(rank);
  if (host == nullptr) throw std::out_of_range(fmt::format("the host of rank {} is not known", rank));
  return *host;
}

int Placement::local_rank(int rank) const {
  const std::vector<int>& ranks = host_of(rank).ranks;
  return static_cast<int>(std::ranges::lower_bound(ranks, rank) - ranks.begin());
}

std::string Placement::text() const {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < hosts_.size() && i < hosts_shown; ++i)
    texts.push_back(fmt::format("{} on {}", base::rank_list(hosts_[i].ranks), hosts_[i].name));
  const std::size_t more = hosts_.size() - texts.size();
  if (more > 0) texts.push_back(fmt::format("{} more {}", more, more == 1 ? "host" : "hosts"));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string Placement::names() const {
  std::string text;
  for (std::size_t i = 0; i < hosts_.size() && i < hosts_shown; ++i) {
    const bool is_last = i + 1 == hosts_.size();
    text += fmt::format("{}{}", i == 0 ? "" : is_last ? " and " : ", ", hosts_[i].name);
  }
  return hosts_.size() > hosts_shown ? fmt::format("{} and {} more", text, hosts_.size() - hosts_shown) : text;
}

HostGrid Placement::grid() const {
  const auto refuse = [this](std::string_view why) { throw std::invalid_argument(fmt::format("{}: {}", why, text())); };
  if (hosts_.empty()) refuse("it is not known on which hosts the ranks are");
  const std::size_t each = hosts_.front().ranks.size();
  int next = 0;
  for (const PlacedHost& host : hosts_) {
    if (host.ranks.size() != each) refuse("the hosts have different numbers of ranks");
  }
  for (const PlacedHost& host : hosts_) {
    for (const int rank : host.ranks) {
      if (rank != next++) refuse("the ranks are not numbered host by host");
    }
  }
  return {.hosts = static_cast<int>(hosts_.size()), .ranks_per_host = static_cast<int>(each)};
}

}  // namespace shardproof

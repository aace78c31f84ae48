#include "launcher/process/gpus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

#include "harness/base/rank_list.hpp"
#include "harness/protocol/world_plan.hpp"  // cupti_times
#include "launcher/launcher.hpp"

namespace shardproof::launcher {

using protocol::GpuInfo;

namespace {

std::string gpus_text(std::size_t count) { return fmt::format("{} GPU{}", count, count == 1 ? "" : "s"); }

std::string sharing_text(std::size_t ranks, std::size_t gpus) {
  return fmt::format("{} ranks share {}", ranks, gpus_text(gpus));
}

/// The whole of `name` as an index.
std::optional<int> index_of(std::string_view name) {
  int index = 0;
  const auto [rest, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  return error == std::errc{} && rest == name.data() + name.size() ? std::optional(index) : std::nullopt;
}

std::string known_text(const std::vector<GpuInfo>& all) {
  std::vector<std::string> known;
  for (const GpuInfo& gpu : all) known.push_back(fmt::format("{} ({})", gpu.index, gpu.uuid));
  return fmt::format("{}", fmt::join(known, ", "));
}

const GpuInfo& named_gpu(const std::vector<GpuInfo>& all, const std::string& name) {
  const std::optional<int> index = index_of(name);
  const auto is_meant = [&](const GpuInfo& gpu) { return index ? gpu.index == *index : gpu.uuid.starts_with(name); };
  const auto found = std::ranges::find_if(all, is_meant);
  if (found == all.end())
    throw CommandError(usage, fmt::format("--gpus {}: no such GPU; choose from {}", name, known_text(all)));
  if (std::ranges::count_if(all, is_meant) > 1)
    throw CommandError(usage,
                       fmt::format("--gpus {}: several UUIDs begin like this; choose from {}", name, known_text(all)));
  return *found;
}

/// From this version on, NCCL itself allows several ranks on one GPU.
constexpr int nccl_that_shares = 23'000;

/// For every rank on a GPU. Spinning kernels must not prevent other kernels from loading, and streams must not wait for
/// each other.
constexpr std::array<std::pair<const char*, const char*>, 2> for_all{
    {{"CUDA_MODULE_LOADING", "EAGER"}, {"CUDA_DEVICE_MAX_CONNECTIONS", "32"}}};

/// For ranks that share a GPU. NCCL treats the ranks as separate machines that communicate by sockets. Its kernels
/// leave room for each other.
constexpr std::array<std::pair<const char*, const char*>, 12> for_sharing{{{"NCCL_NET", "Socket"},
                                                                           {"NCCL_NET_PLUGIN", "none"},
                                                                           {"NCCL_IB_DISABLE", "1"},
                                                                           {"NCCL_MNNVL_ENABLE", "0"},
                                                                           {"NCCL_NVLS_ENABLE", "0"},
                                                                           {"NCCL_RAS_ENABLE", "0"},
                                                                           {"NCCL_MAX_CTAS", "2"},
                                                                           {"NCCL_CGA_CLUSTER_SIZE", "0"},
                                                                           {"NCCL_PROTO", "Simple"},
                                                                           {"NCCL_ALGO", "Ring"},
                                                                           {"NCCL_BUFFSIZE", "1048576"},
                                                                           {"NCCL_LAUNCH_ORDER_IMPLICIT", "1"}}};
/// For ranks that share a GPU, and are all on one host.
constexpr std::array<std::pair<const char*, const char*>, 1> for_sharing_on_one_host{{{"NCCL_SOCKET_IFNAME", "lo"}}};

bool is_set(std::span<const std::string> environment, std::string_view name) {
  return std::ranges::any_of(environment,
                             [name](std::string_view entry) { return entry.substr(0, entry.find('=')) == name; });
}

}  // namespace

namespace {

std::vector<GpuInfo> chosen_gpus(const std::vector<GpuInfo>& all, const GpuChoice& choice) {
  std::vector<GpuInfo> chosen;
  if (choice.count) {
    const auto count = static_cast<std::size_t>(*choice.count);
    if (count > all.size())
      throw CommandError(
          usage, fmt::format("--gpus {}: there {} {}", count, all.size() == 1 ? "is" : "are", gpus_text(all.size())));
    chosen.assign(all.begin(), all.begin() + *choice.count);
    return chosen;
  }
  for (const std::string& name : choice.names) {
    const GpuInfo& gpu = named_gpu(all, name);
    if (std::ranges::find(chosen, gpu) != chosen.end())
      throw CommandError(usage, fmt::format("--gpus {}: GPU {} ({}) is named twice", name, gpu.index, gpu.uuid));
    chosen.push_back(gpu);
  }
  return choice.names.empty() ? all : chosen;
}

}  // namespace

std::optional<GpuChoice> gpus_of_ctest(const std::function<const char*(const char*)>& get) {
  const auto value = [&](const std::string& name) -> std::string_view {
    const char* const text = get(name.c_str());
    return text == nullptr ? "" : text;
  };
  const int groups = index_of(value("CTEST_RESOURCE_GROUP_COUNT")).value_or(0);
  GpuChoice choice;
  for (int group = 0; group < groups; ++group) {
    // `id:0,slots:1;id:3,slots:1`
    constexpr std::string_view key = "id:";
    std::string_view left = value(fmt::format("CTEST_RESOURCE_GROUP_{}_GPUS", group));
    for (std::size_t at = left.find(key); at != std::string_view::npos; at = left.find(key)) {
      left.remove_prefix(at + key.size());
      const std::string id(left.substr(0, left.find_first_of(",;")));
      if (std::ranges::find(choice.names, id) == choice.names.end()) choice.names.push_back(id);
    }
  }
  return choice.names.empty() ? std::nullopt : std::optional(choice);
}

std::vector<GpuInfo> choose_gpus(const std::vector<GpuInfo>& all, const GpuChoice& choice) {
  std::vector<GpuInfo> chosen = chosen_gpus(all, choice);
  const auto is_left_out = [&](const protocol::GpuPeer& peer) {
    return std::ranges::find(chosen, peer.uuid, &GpuInfo::uuid) == chosen.end();
  };
  for (GpuInfo& gpu : chosen) std::erase_if(gpu.peers, is_left_out);
  return chosen;
}

std::string why_too_large(const GpuSupply& supply, int world_size) {
  if (supply.by_guards || supply.shared || world_size <= supply.count()) return {};
  return fmt::format(
      "a world of {} ranks needs {} GPUs, one for each, and may use {} (--share-gpus puts several ranks on one)",
      world_size, world_size, supply.count());
}

std::string why_unfit_for_timing(const GpuSupply& supply, int world_size) {
  if (supply.by_guards || world_size <= supply.count()) return {};
  return sharing_text(static_cast<std::size_t>(world_size), supply.listing.gpus.size());
}

GpuPool::GpuPool(const GpuSupply& supply) {
  for (const GpuInfo& gpu : supply.listing.gpus) all_.push_back(gpu.uuid);
}

std::optional<std::vector<std::string>> GpuPool::take(int world_size) {
  const std::size_t size = static_cast<std::size_t>(world_size), wanted = std::min(size, all_.size());
  std::vector<std::string> free;
  std::ranges::copy_if(all_, std::back_inserter(free),
                       [this](const std::string& uuid) { return !taken_.contains(uuid); });
  if (wanted == 0 || free.size() < wanted) return std::nullopt;
  std::vector<std::string> lent;
  for (std::size_t rank = 0; rank < size; ++rank) lent.push_back(free[rank % wanted]);
  taken_.insert(lent.begin(), lent.end());
  return lent;
}

void GpuPool::give_back(const std::vector<std::string>& uuids) {
  for (const std::string& uuid : uuids) taken_.erase(uuid);
}

protocol::GpuListing brief(protocol::GpuListing listing) {
  for (GpuInfo& gpu : listing.gpus) {
    GpuInfo kept;
    kept.index = gpu.index;
    kept.uuid = std::move(gpu.uuid);
    gpu = std::move(kept);
  }
  return listing;
}

namespace {

std::string place_text(std::size_t rank, const GuardGpus& of) { return fmt::format("rank {} on {}", rank, of.host); }

void require_found(std::span<const GuardGpus> ranks, const GpuTerms& terms) {
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const protocol::GpuListing& listing = ranks[rank].listing;
    if (listing.gpus.empty())
      throw CommandError(
          infrastructure,
          fmt::format(
              "--device cuda: no GPUs for {}: {}; look at nvidia-smi there, and at the GPUs that the command of "
              "--launcher shows to the rank (CUDA_VISIBLE_DEVICES)",
              place_text(rank, ranks[rank]), listing.why_none));
    if (terms.needs_records && !listing.why_no_records.empty())
      throw CommandError(infrastructure,
                         fmt::format("--times {}: no records for {}: {}; use --times events", protocol::cupti_times,
                                     place_text(rank, ranks[rank]), listing.why_no_records));
  }
}

void require_one_build(std::span<const GuardGpus> ranks) {
  const GuardGpus& first = ranks.front();
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const GuardGpus& other = ranks[rank];
    const auto differ = [&](const std::string& of_first, const std::string& of_other, const char* what_to_do) {
      return CommandError(infrastructure, fmt::format("{} has {}, and {} has {}: {}", place_text(0, first), of_first,
                                                      place_text(rank, other), of_other, what_to_do));
    };
    if (other.listing.backend != first.listing.backend)
      throw differ("the backend " + first.listing.backend, "the backend " + other.listing.backend,
                   "all hosts need the same file of --backend");
    if (other.listing.nccl != first.listing.nccl)
      throw differ("NCCL " + protocol::nccl_version_text(first.listing.nccl),
                   "NCCL " + protocol::nccl_version_text(other.listing.nccl),
                   "all hosts have to load the same version, for example by LD_LIBRARY_PATH");
  }
}

std::vector<GpuInfo> choose_gpus_of(const GuardGpus& guard, const GpuChoice& choice) {
  try {
    return choose_gpus(guard.listing.gpus, choice);
  } catch (const CommandError& error) {
    throw CommandError(error.code(), fmt::format("on {}: {}", guard.host, error.what()));
  }
}

/// The error for a rank whose list has only GPUs of earlier ranks. Where all lists of its machine together have enough
/// GPUs, the lists are to blame, and not the number of ranks.
CommandError none_left(std::span<const GuardGpus> ranks, std::size_t rank, const GpuChoice& choice) {
  std::vector<int> there;
  std::set<std::string> uuids;
  for (std::size_t other = 0; other < ranks.size(); ++other) {
    if (ranks[other].machine != ranks[rank].machine) continue;
    there.push_back(static_cast<int>(other));
    for (const GpuInfo& gpu : choose_gpus_of(ranks[other], choice)) uuids.insert(gpu.uuid);
  }
  if (uuids.size() >= there.size())
    return {infrastructure,
            fmt::format("no GPU is left for {0}: it may use {1}, which earlier ranks have, and {2} on this machine may "
                        "use {3} together; let each rank see all GPUs of {4}, for example without --gpus-per-task and "
                        "--gpu-bind, or let ranks share GPUs (--share-gpus)",
                        place_text(rank, ranks[rank]), gpus_text(choose_gpus_of(ranks[rank], choice).size()),
                        base::rank_list(there), gpus_text(uuids.size()), ranks[rank].host)};
  return {infrastructure,
          fmt::format("no GPU is left for {}: {} on this machine may use {}, and each rank needs its own; start fewer "
                      "ranks on each host, on more hosts, or let ranks share GPUs (--share-gpus)",
                      place_text(rank, ranks[rank]), base::rank_list(there), gpus_text(uuids.size()))};
}

}  // namespace

GpuAssignment assign_gpus(std::span<const GuardGpus> ranks, const GpuTerms& terms) {
  require_found(ranks, terms);
  require_one_build(ranks);
  GpuAssignment assigned{.uuids = {}, .nccl = ranks.front().listing.nccl, .unfit_for_timing = {}};
  std::map<std::pair<std::string, std::string>, int> users;  // by machine and uuid
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::vector<GpuInfo> own = choose_gpus_of(ranks[rank], terms.choice);
    const auto users_of = [&](const GpuInfo& gpu) -> int& { return users[{ranks[rank].machine, gpu.uuid}]; };
    const GpuInfo& gpu = *std::ranges::min_element(own, {}, users_of);
    if (users_of(gpu)++ > 0 && !terms.shared) throw none_left(ranks, rank, terms.choice);
    assigned.uuids.push_back(gpu.uuid);
  }
  std::erase_if(users, [](const auto& one) { return one.second == 0; });
  if (users.size() < ranks.size()) assigned.unfit_for_timing = sharing_text(ranks.size(), users.size());
  return assigned;
}

std::vector<Environment> gpu_environment(const std::vector<std::string>& uuids, int nccl, const std::string& world,
                                         std::span<const std::string> environment, bool on_one_host) {
  const bool is_shared = std::set<std::string>(uuids.begin(), uuids.end()).size() < uuids.size();
  Environment common;
  const auto propose = [&](const auto& variables) {
    for (const auto& [name, value] : variables) {
      if (!is_set(environment, name)) common[name] = value;
    }
  };
  propose(for_all);
  if (is_shared) propose(for_sharing);
  if (is_shared && on_one_host) propose(for_sharing_on_one_host);
  if (is_shared && nccl >= nccl_that_shares) propose(Environment{{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}});
  std::vector<Environment> ranks;
  for (std::size_t rank = 0; rank < uuids.size(); ++rank) {
    Environment& own = ranks.emplace_back(common);
    own["CUDA_VISIBLE_DEVICES"] = uuids[rank];
    if (is_shared && nccl < nccl_that_shares) own["NCCL_HOSTID"] = fmt::format("shardproof-{}-rank-{}", world, rank);
  }
  return ranks;
}

std::map<std::string, std::string> gpu_facts(const protocol::GpuListing& listing) {
  std::map<std::string, std::string> facts;
  if (!listing.backend.empty()) facts["backend"] = listing.backend;
  if (listing.driver > 0) facts["cuda_driver"] = protocol::cuda_version_text(listing.driver);
  if (listing.runtime > 0) facts["cuda_runtime"] = protocol::cuda_version_text(listing.runtime);
  if (listing.nccl > 0) facts["nccl"] = protocol::nccl_version_text(listing.nccl);
  return facts;
}

std::string models_text(const std::vector<GpuInfo>& gpus) {
  std::vector<std::pair<std::string, std::size_t>> models;
  for (const GpuInfo& gpu : gpus) {
    const auto known = std::ranges::find(models, gpu.name, &std::pair<std::string, std::size_t>::first);
    if (known == models.end()) {
      models.emplace_back(gpu.name, 1);
    } else {
      ++known->second;
    }
  }
  std::vector<std::string> texts;
  for (const auto& [name, count] : models) texts.push_back(fmt::format("{} x {}", count, name));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace shardproof::launcher

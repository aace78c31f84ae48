// GPUs for ranks: which ones a user means, which of them a world gets, and what each of its ranks has to be told to see its own and no other.
// Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/protocol/gpu_listing.hpp"

namespace shardproof::launcher {

/// What `--gpus` says; neither: all.
struct GpuChoice {
  std::optional<int> count;  ///< so many, the first ones
  std::vector<std::string> names;  ///< indices or beginnings of uuids, in the order in which ranks get them
};

/// What ranks may run on.
struct GpuSupply {
  GpuListing listing;  ///< `gpus` are those that were chosen
  bool shared = false;  ///< several ranks may run on one
  int count() const { return static_cast<int>(listing.gpus.size()); }
};

/// Their peers are those among them. Throws CommandError (usage) naming what is not there and what is.
std::vector<GpuInfo> choose_gpus(const std::vector<GpuInfo>& all, const GpuChoice& choice);

/// Why a world of that size cannot run on them, with both numbers; empty: it can.
std::string why_too_large(const GpuSupply& supply, int world_size);
/// Why durations of a world of that size say nothing; empty: each of its ranks has a GPU of its own.
std::string why_unfit_for_timing(const GpuSupply& supply, int world_size);

/// Lends GPUs to worlds that run side by side: no GPU to two of them.
class GpuPool {
 public:
  explicit GpuPool(const GpuSupply& supply);
  /// Of the GPU of each rank, the uuid; none while too few are free. Ranks share when the world is larger than the pool.
  std::optional<std::vector<std::string>> take(int world_size);
  void give_back(const std::vector<std::string>& uuids);

 private:
  std::vector<std::string> all_;
  std::set<std::string> taken_;
};

using Environment = std::map<std::string, std::string>;

/// What the ranks that get these GPUs are told. What the user has set in `environment` (NAME=value) stays, but for who sees which GPU, and
/// for NCCL_HOSTID where ranks share one.
std::vector<Environment> gpu_environment(const std::vector<std::string>& uuids, int nccl, const std::string& world,
                                         std::span<const std::string> environment);

/// Of a report's machine: driver, libraries and the backend that reached them.
std::map<std::string, std::string> gpu_facts(const GpuListing& listing);

/// `8 x NVIDIA H200`, several kinds with commas between them.
std::string models_text(const std::vector<GpuInfo>& gpus);

}  // namespace shardproof::launcher

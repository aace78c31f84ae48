// GPUs for ranks: which GPUs the user chose, which GPUs a world gets, and the environment that shows each rank its own
// GPU only. Planning and runs use it. Pure.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "harness/protocol/gpu_listing.hpp"

namespace shardproof::launcher {

/// The value of `--gpus`. Without count and names: all GPUs.
struct GpuChoice {
  std::optional<int> count;  ///< this many, beginning with the first
  std::vector<std::string> names;  ///< indices or beginnings of uuids, in the order in which ranks get the GPUs
};

/// The GPUs that CTest reserves for a test with the property RESOURCE_GROUPS (`2,gpus:1`). None: it reserves no `gpus`.
/// `get` maps the name of a variable to its value or nullptr.
std::optional<GpuChoice> gpus_of_ctest(const std::function<const char*(const char*)>& get);

/// The user's conditions for GPUs, where the guard of each rank finds the GPUs of its host (`--launcher`).
struct GpuTerms {
  GpuChoice choice;  ///< on each host
  bool shared = false;  ///< several ranks may run on one GPU
  bool needs_records = false;  ///< times come from CUPTI
};

/// The GPUs that ranks may use.
struct GpuSupply {
  protocol::GpuListing listing;  ///< `gpus` are the chosen GPUs
  bool shared = false;  ///< several ranks may run on one GPU
  /// Set: guards find the GPUs. The launcher may have none, and `listing` describes its host for the report only.
  std::optional<GpuTerms> by_guards;
  int count() const { return static_cast<int>(listing.gpus.size()); }
};

/// The chosen GPUs. Their peers include only chosen GPUs. Throws CommandError (usage) if a GPU does not exist, naming
/// it and the existing GPUs.
std::vector<protocol::GpuInfo> choose_gpus(const std::vector<protocol::GpuInfo>& all, const GpuChoice& choice);

/// Why a world of this size cannot run on these GPUs, with both numbers. Empty: it can, or only guards know that.
std::string why_too_large(const GpuSupply& supply, int world_size);
/// Why durations of a world of this size mean nothing. Empty: each rank has its own GPU, or only guards know that.
std::string why_unfit_for_timing(const GpuSupply& supply, int world_size);

/// Lends GPUs to simultaneous worlds. No two worlds have the same GPU.
class GpuPool {
 public:
  explicit GpuPool(const GpuSupply& supply);
  /// The uuid of each rank's GPU. Empty while too few GPUs are free. Ranks share GPUs if the world is larger than the
  /// pool.
  std::optional<std::vector<std::string>> take(int world_size);
  void give_back(const std::vector<std::string>& uuids);

 private:
  std::vector<std::string> all_;
  std::set<std::string> taken_;
};

/// The GPUs that the guard of a rank has found.
struct GuardGpus {
  std::string host;  ///< its name, for messages
  /// The id of the machine. Two containers on one machine are two hosts, and their guards may find the same GPU.
  std::string machine;
  protocol::GpuListing listing;
};

/// The part of a listing that `assign_gpus` needs. A guard sends it in one message, whose size is limited.
protocol::GpuListing brief(protocol::GpuListing listing);

/// The GPUs of a world's ranks.
struct GpuAssignment {
  std::vector<std::string> uuids;  ///< by rank
  int nccl = 0;  ///< NCCL's version, the same for all ranks
  std::string unfit_for_timing;  ///< Why durations mean nothing. Empty: each rank has its own GPU.
};

/// Gives each rank, in ascending order, the first GPU of its guard's list that no earlier rank has. `ranks` has an
/// entry for each rank. Where ranks share GPUs and none is free, a rank gets the GPU that the fewest ranks have.
///
/// Throws CommandError with the ranks and hosts, and what to do, if
///   - a rank finds no GPU, or none that is left,
///   - a host lacks the GPUs of the user's choice, or the records that times need,
///   - ranks have different backends, or versions of NCCL.
GpuAssignment assign_gpus(std::span<const GuardGpus> ranks, const GpuTerms& terms);

using Environment = std::map<std::string, std::string>;

/// The variables to add to the environment of each rank on these GPUs. `environment` (NAME=value) are the user's
/// variables. They keep their values, with two exceptions:
///   - the variable that selects a rank's visible GPU,
///   - NCCL_HOSTID, if ranks share a GPU and this NCCL does not support that itself.
/// If `on_one_host` is false, NCCL chooses its network interface, also where ranks share a GPU.
std::vector<Environment> gpu_environment(const std::vector<std::string>& uuids, int nccl, const std::string& world,
                                         std::span<const std::string> environment, bool on_one_host = true);

/// The facts about GPUs in a report: driver, libraries and the backend that reached them.
std::map<std::string, std::string> gpu_facts(const protocol::GpuListing& listing);

/// `8 x NVIDIA H200`. Several models are separated by commas.
std::string models_text(const std::vector<protocol::GpuInfo>& gpus);

}  // namespace shardproof::launcher

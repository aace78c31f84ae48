// GpuListing is a worker's answer to the question on which GPUs its ranks could run. The launcher loads no driver. So a
// driver that hangs or crashes affects only the worker that was asked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardproof::protocol {

/// The relation of a GPU to another one. An absent value is unknown.
struct GpuPeer {
  std::string uuid;  ///< The other GPU's.
  bool can_access = false;  ///< Kernels of this GPU can access the other one's memory.
  std::optional<int> performance_rank;  ///< Rank of the link, in CUDA's order: the lowest is the best.
  std::optional<bool> native_atomics;
  std::optional<bool> nvlink;
  /// PIX, PXB, PHB, NODE or SYS, as in `nvidia-smi topo -m`. Empty: unknown.
  std::string pci;
  friend bool operator==(const GpuPeer&, const GpuPeer&) = default;
};

struct GpuInfo {
  int index = 0;  ///< among the GPUs that the worker saw
  std::string uuid;
  std::string name, bus_id;
  std::uint64_t memory_bytes = 0;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  int clock_khz = 0, memory_clock_khz = 0;  ///< The highest clock. 0: the library does not report it.
  // An absent value or an empty path is unknown.
  std::optional<int> numa_node;
  std::string pci_path;  ///< Begins at the host bridge: `pci0000:00/0000:00:01.0/0000:17:00.0`.
  std::optional<int> clock_now_khz, memory_clock_now_khz;  ///< at the time when the worker looked
  std::optional<std::vector<std::string>> slowed_by;  ///< At that time. Empty: nothing slowed it.
  std::vector<GpuPeer> peers;
  friend bool operator==(const GpuInfo&, const GpuInfo&) = default;
};

void to_json(nlohmann::ordered_json& json, const GpuInfo& gpu);
/// Throws std::invalid_argument, which names the field.
void from_json(const nlohmann::ordered_json& json, GpuInfo& gpu);

struct GpuListing {
  static constexpr int current_protocol = 1;
  std::string backend;  ///< The backend's own name. Empty: it could not be loaded.
  bool is_exact = false;  ///< The backend's time is virtual.
  int driver = 0, runtime = 0;  ///< CUDA's versions, 13000 for 13.0. 0: unknown; for `driver` also: no driver.
  int nccl = 0;  ///< 22809 for 2.28.9. 0: unknown.
  std::vector<GpuInfo> gpus;
  std::string why_none;  ///< Not empty exactly where `gpus` is empty.
  /// The reason why CUPTI cannot record GPU work. Empty: no obstacle is known before the run.
  std::string why_no_records;
  friend bool operator==(const GpuListing&, const GpuListing&) = default;
};

void to_json(nlohmann::ordered_json& json, const GpuListing& listing);
/// Throws std::invalid_argument, which names the field.
void from_json(const nlohmann::ordered_json& json, GpuListing& listing);

/// Pairs of GPUs, by their places in `gpus`, in which one GPU is known not to reach the other's memory.
std::vector<std::pair<std::size_t, std::size_t>> unreachable_pairs(std::span<const GpuInfo> gpus);

/// `0 and 2, 1 and 2`. A long list is cut after the first pairs.
std::string pairs_text(std::span<const std::pair<std::size_t, std::size_t>> pairs);

/// `13.0` for 13000, the numbering of CUDA's driver and runtime.
std::string cuda_version_text(int version);
/// `2.28.9` for 22809.
std::string nccl_version_text(int version);

}  // namespace shardproof::protocol

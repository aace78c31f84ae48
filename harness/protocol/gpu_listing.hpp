// What a worker says of the GPUs that its ranks could run on, when it is asked for them. The launcher loads no driver: one that hangs or
// crashes takes the worker that was asked, and nobody else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shardproof {

/// What a GPU has to do with another one. What is absent is unknown.
struct GpuPeer {
  std::string uuid;  ///< the other one's
  bool can_access = false;  ///< its memory, from kernels
  std::optional<int> performance_rank;  ///< of the link, as CUDA ranks them: the lowest is the best
  std::optional<bool> native_atomics;
  std::optional<bool> nvlink;
  std::string pci;  ///< PIX, PXB, PHB, NODE or SYS, as `nvidia-smi topo -m` has them; empty: unknown
  friend bool operator==(const GpuPeer&, const GpuPeer&) = default;
};

struct GpuInfo {
  int index = 0;  ///< among those that the worker saw
  std::string uuid;
  std::string name, bus_id;
  std::uint64_t memory_bytes = 0;
  int compute_major = 0, compute_minor = 0;
  int multiprocessors = 0;
  int clock_khz = 0, memory_clock_khz = 0;  ///< the highest; 0: the library does not say
  // What is absent, or an empty path, is unknown.
  std::optional<int> numa_node;
  std::string pci_path;  ///< from the host bridge on: `pci0000:00/0000:00:01.0/0000:17:00.0`
  std::optional<int> clock_now_khz, memory_clock_now_khz;  ///< when the worker looked
  std::optional<std::vector<std::string>> slowed_by;  ///< then; empty: by nothing
  std::vector<GpuPeer> peers;
  friend bool operator==(const GpuInfo&, const GpuInfo&) = default;
};

void to_json(nlohmann::ordered_json& json, const GpuInfo& gpu);
/// Throws std::invalid_argument naming the field.
void from_json(const nlohmann::ordered_json& json, GpuInfo& gpu);

struct GpuListing {
  static constexpr int current_protocol = 1;
  std::string backend;    ///< what it calls itself; empty: it could not be loaded
  bool is_exact = false;  ///< its time is virtual
  int driver = 0, runtime = 0;  ///< of CUDA, 13000 for 13.0; 0: unknown, and no driver
  int nccl = 0;                 ///< 22809 for 2.28.9; 0: unknown
  std::vector<GpuInfo> gpus;
  std::string why_none;  ///< exactly where there are none
  std::string why_no_records;  ///< why CUPTI cannot record what runs; empty: it can, as far as one knows before
  friend bool operator==(const GpuListing&, const GpuListing&) = default;
};

void to_json(nlohmann::ordered_json& json, const GpuListing& listing);
/// Throws std::invalid_argument naming the field.
void from_json(const nlohmann::ordered_json& json, GpuListing& listing);

/// Pairs of them, by their places, of which one is known not to reach the other's memory.
std::vector<std::pair<std::size_t, std::size_t>> unreachable_pairs(std::span<const GpuInfo> gpus);

/// `0 and 2, 1 and 2`, of many only the first.
std::string pairs_text(std::span<const std::pair<std::size_t, std::size_t>> pairs);

/// `13.0` for 13000, as CUDA's driver and runtime number themselves.
std::string cuda_version_text(int version);
/// `2.28.9` for 22809.
std::string nccl_version_text(int version);

}  // namespace shardproof

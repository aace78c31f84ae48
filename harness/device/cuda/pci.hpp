// Where a GPU stands in the machine, as its kernel tells it under /sys: next to which memory, and behind which bridges. Nothing is asked of a
// driver, and what the kernel does not say stays unknown.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace shardproof::cuda {

struct PciPlace {
  std::optional<int> numa_node;
  std::string path;  ///< from the host bridge on: `pci0000:00/0000:00:01.0/0000:17:00.0`; empty: unknown
};

/// `system`: /sys, or what stands for it. `bus_id`: as CUDA writes it, `0000:17:00.0`.
PciPlace pci_place(const std::filesystem::path& system, const std::string& bus_id);

/// What is between two of them, by the words of `nvidia-smi topo -m`: PIX one bridge or switch, PXB several, PHB a host bridge, NODE host
/// bridges of one NUMA node, SYS the link between NUMA nodes. Empty: unknown. It sees no NVLink.
std::string pci_between(const PciPlace& one, const PciPlace& other);

}  // namespace shardproof::cuda

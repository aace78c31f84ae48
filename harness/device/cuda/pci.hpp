// The location of a GPU in the machine, as the kernel describes it under /sys: its NUMA node, and the bridges above it.
// It asks no driver. A fact that the kernel does not report stays unknown.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace shardproof::device::cuda {

struct PciPlace {
  std::optional<int> numa_node;
  std::string path;  ///< From the host bridge on: `pci0000:00/0000:00:01.0/0000:17:00.0`; empty: unknown.
};

/// `system` is /sys, or a replacement. `bus_id` is in CUDA's form, `0000:17:00.0`.
PciPlace pci_place(const std::filesystem::path& system, const std::string& bus_id);

/// The connection between two GPUs, in the words of `nvidia-smi topo -m`; empty: unknown. It does not see NVLink.
///
/// - PIX: one bridge or switch
/// - PXB: several bridges or switches
/// - PHB: a host bridge
/// - NODE: host bridges of one NUMA node
/// - SYS: the link between NUMA nodes
std::string pci_between(const PciPlace& one, const PciPlace& other);

}  // namespace shardproof::device::cuda

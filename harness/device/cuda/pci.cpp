#include "harness/device/cuda/pci.hpp"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <system_error>

namespace shardproof::device::cuda {

namespace {

/// The path from the host bridge on. Host bridges are named by domain and bus, `pci0000:00`. On some machines the name
/// of their controller comes first.
std::filesystem::path from_host_bridge(const std::filesystem::path& device) {
  std::filesystem::path place;
  bool is_below = false;
  for (const auto& step : device) {
    const std::string name = step.string();
    is_below = is_below || (name.starts_with("pci") && name.find(':') != std::string::npos);
    if (is_below) place /= step;
  }
  return place;
}

std::optional<int> numa_node(const std::filesystem::path& device) {
  std::ifstream in(device / "numa_node");
  int node = -1;
  // The kernel writes -1 for an unknown node.
  return in >> node && node >= 0 ? std::optional(node) : std::nullopt;
}

}  // namespace

PciPlace pci_place(const std::filesystem::path& system, const std::string& bus_id) {
  if (bus_id.empty() || bus_id.find('/') != std::string::npos) return {};
  std::string name = bus_id;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  std::error_code unknown;
  const auto device = std::filesystem::canonical(system / "bus/pci/devices" / name, unknown);
  if (unknown || device.filename() != name) return {};
  return {.numa_node = numa_node(device), .path = from_host_bridge(device).generic_string()};
}

std::string pci_between(const PciPlace& one, const PciPlace& other) {
  if (one.path.empty() || other.path.empty()) return {};
  const std::filesystem::path first = one.path, second = other.path;
  const auto [a, b] = std::ranges::mismatch(first, second);
  if (a == first.begin()) {
    if (!one.numa_node || !other.numa_node) return {};
    return one.numa_node == other.numa_node ? "NODE" : "SYS";
  }
  if (std::next(first.begin()) == a) return "PHB";
  // A switch is one upstream bridge, which both GPUs share, and one downstream bridge for each GPU.
  constexpr auto below_one_switch = 2;
  return std::max(std::distance(a, first.end()), std::distance(b, second.end())) <= below_one_switch ? "PIX" : "PXB";
}

}  // namespace shardproof::device::cuda

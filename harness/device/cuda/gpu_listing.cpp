#include "harness/device/cuda/gpu_listing.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <utility>

#include "harness/device/cuda/pci.hpp"

namespace shardproof::device::cuda {

using protocol::GpuInfo;

namespace {

void check_listing(Status status, const char* operation, const CudaTable& cuda) {
  if (status == 0) return;
  throw std::runtime_error(
      fmt::format("{}: {} ({}), {}", operation, cuda.error_name(status), status, cuda.error_text(status)));
}

GpuInfo look_at(int index, const CudaTable& cuda) {
  GpuProperties properties{};
  check_listing(cuda.device_properties(index, &properties), "cudaGetDeviceProperties", cuda);
  return {.index = index,
          .uuid = properties.uuid,
          .name = properties.name,
          .bus_id = properties.bus_id,
          .memory_bytes = properties.memory_bytes,
          .compute_major = properties.compute_major,
          .compute_minor = properties.compute_minor,
          .multiprocessors = properties.multiprocessors,
          .clock_khz = properties.clock_khz,
          .memory_clock_khz = properties.memory_clock_khz};
}

std::optional<int> known_clock(std::int32_t khz) { return khz > 0 ? std::optional(khz) : std::nullopt; }

std::optional<bool> known_flag(std::int32_t flag) { return flag >= 0 ? std::optional(flag != 0) : std::nullopt; }

/// Leaves out limits that a user has set, and idle GPUs.
std::vector<std::string> reasons(std::int64_t bits) {
  constexpr std::array<std::pair<SlowedBy, const char*>, 5> names{{{slowed_by_power_cap, "power cap"},
                                                                   {slowed_by_hardware, "hardware slowdown"},
                                                                   {slowed_by_heat_software, "heat (software)"},
                                                                   {slowed_by_heat_hardware, "heat (hardware)"},
                                                                   {slowed_by_power_brake, "power brake"}}};
  std::vector<std::string> texts;
  for (const auto& [bit, name] : names) {
    if ((bits & bit) != 0) texts.emplace_back(name);
  }
  return texts;
}

/// Details that cannot be found stay unknown: a run does not need them.
void add_state(GpuInfo& gpu, const CudaTable& cuda) {
  GpuState state{};
  if (cuda.device_state(gpu.index, &state) != 0) return;
  gpu.clock_now_khz = known_clock(state.clock_khz);
  gpu.memory_clock_now_khz = known_clock(state.memory_clock_khz);
  if (state.slowed_by >= 0) gpu.slowed_by = reasons(state.slowed_by);
}

void add_topology(std::vector<GpuInfo>& gpus, const CudaTable& cuda, const std::filesystem::path& system) {
  std::vector<PciPlace> places;
  for (GpuInfo& gpu : gpus) {
    const PciPlace& place = places.emplace_back(pci_place(system, gpu.bus_id));
    gpu.numa_node = place.numa_node;
    gpu.pci_path = place.path;
  }
  for (std::size_t one = 0; one < gpus.size(); ++one) {
    for (std::size_t other = 0; other < gpus.size(); ++other) {
      PeerProperties found{};
      if (one == other || cuda.peer_properties(gpus[one].index, gpus[other].index, &found) != 0 || found.can_access < 0)
        continue;
      gpus[one].peers.push_back(
          {.uuid = gpus[other].uuid,
           .can_access = found.can_access != 0,
           .performance_rank = found.performance_rank >= 0 ? std::optional(found.performance_rank) : std::nullopt,
           .native_atomics = known_flag(found.native_atomics),
           .nvlink = known_flag(found.nvlink),
           .pci = pci_between(places[one], places[other])});
    }
  }
}

}  // namespace

protocol::GpuListing list_gpus(const VendorTables& vendor, const std::filesystem::path& system) {
  const CudaTable& cuda = *vendor.cuda;
  protocol::GpuListing listing{.backend = vendor.name, .is_exact = vendor.is_exact};
  try {
    check_listing(cuda.runtime_version(&listing.runtime), "cudaRuntimeGetVersion", cuda);
    check_listing(cuda.driver_version(&listing.driver), "cudaDriverGetVersion", cuda);
    if (listing.driver == 0) throw std::runtime_error("there is no driver: no libcuda.so.1 can be loaded");
    if (const Status status = vendor.nccl->version(&listing.nccl); status != 0)
      throw std::runtime_error(fmt::format("ncclGetVersion: {} ({})", vendor.nccl->error_text(status), status));
    int count = 0;
    check_listing(cuda.device_count(&count), "cudaGetDeviceCount", cuda);
    for (int index = 0; index < count; ++index) listing.gpus.push_back(look_at(index, cuda));
    for (GpuInfo& gpu : listing.gpus) add_state(gpu, cuda);
    add_topology(listing.gpus, cuda, system);
    const char* why = "the backend does not use CUPTI";
    if (vendor.activity == nullptr || vendor.activity(&why) == nullptr) listing.why_no_records = why;
    if (count == 0) listing.why_none = "the driver shows none";
  } catch (const std::exception& error) {
    listing.gpus.clear();
    listing.why_none = error.what();
  }
  return listing;
}

}  // namespace shardproof::device::cuda

#include "harness/protocol/gpu_listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include "harness/base/json_fields.hpp"

namespace shardproof::protocol {

using base::Fields;
using base::refuse;

namespace {

int read_natural(const Fields& fields, const char* name) {
  const int number = fields.integer<int>(name);
  if (number < 0) refuse(fields.where(name), "no negative number", fields.at(name, "an integer"));
  return number;
}

/// Lists of GPUs have commas between the GPUs.
const std::string& read_uuid(const Fields& fields) {
  const std::string& uuid = fields.text("uuid");
  const auto is_plain = [](char c) { return c > ' ' && c <= '~' && c != ','; };
  if (uuid.empty() || !std::ranges::all_of(uuid, is_plain))
    refuse(fields.where("uuid"), "a name without blanks and commas", uuid);
  return uuid;
}

std::optional<int> read_natural_if_given(const Fields& fields, const char* name) {
  return fields.has(name) ? std::optional(read_natural(fields, name)) : std::nullopt;
}

std::optional<bool> read_boolean_if_given(const Fields& fields, const char* name) {
  return fields.has(name) ? std::optional(fields.boolean(name)) : std::nullopt;
}

template <class Value>
void put_if_known(nlohmann::ordered_json& json, const char* name, const std::optional<Value>& value) {
  if (value) json[name] = *value;
}

}  // namespace

void to_json(nlohmann::ordered_json& json, const GpuPeer& peer) {
  json = nlohmann::ordered_json{{"uuid", peer.uuid}, {"can_access", peer.can_access}};
  put_if_known(json, "performance_rank", peer.performance_rank);
  put_if_known(json, "native_atomics", peer.native_atomics);
  put_if_known(json, "nvlink", peer.nvlink);
  if (!peer.pci.empty()) json["pci"] = peer.pci;
}

void from_json(const nlohmann::ordered_json& json, GpuPeer& peer) {
  const Fields fields(json, "peer of a gpu");
  peer.uuid = read_uuid(fields);
  peer.can_access = fields.boolean("can_access");
  peer.performance_rank = read_natural_if_given(fields, "performance_rank");
  peer.native_atomics = read_boolean_if_given(fields, "native_atomics");
  peer.nvlink = read_boolean_if_given(fields, "nvlink");
  if (!fields.has("pci")) return;
  constexpr std::array<std::string_view, 5> known{"PIX", "PXB", "PHB", "NODE", "SYS"};
  peer.pci = fields.text("pci");
  if (std::ranges::find(known, peer.pci) == known.end())
    refuse(fields.where("pci"), "PIX, PXB, PHB, NODE or SYS", peer.pci);
}

void to_json(nlohmann::ordered_json& json, const GpuInfo& gpu) {
  json = nlohmann::ordered_json{{"index", gpu.index},
                                {"uuid", gpu.uuid},
                                {"name", gpu.name},
                                {"bus_id", gpu.bus_id},
                                {"memory_bytes", gpu.memory_bytes},
                                {"compute_major", gpu.compute_major},
                                {"compute_minor", gpu.compute_minor},
                                {"multiprocessors", gpu.multiprocessors},
                                {"clock_khz", gpu.clock_khz},
                                {"memory_clock_khz", gpu.memory_clock_khz}};
  put_if_known(json, "numa_node", gpu.numa_node);
  if (!gpu.pci_path.empty()) json["pci_path"] = gpu.pci_path;
  put_if_known(json, "clock_now_khz", gpu.clock_now_khz);
  put_if_known(json, "memory_clock_now_khz", gpu.memory_clock_now_khz);
  put_if_known(json, "slowed_by", gpu.slowed_by);
  if (!gpu.peers.empty()) json["peers"] = gpu.peers;
}

void from_json(const nlohmann::ordered_json& json, GpuInfo& gpu) {
  const Fields fields(json, "gpu");
  gpu.index = read_natural(fields, "index");
  gpu.uuid = read_uuid(fields);
  gpu.name = fields.text("name");
  gpu.bus_id = fields.text("bus_id");
  gpu.memory_bytes = fields.integer<std::uint64_t>("memory_bytes");
  gpu.compute_major = read_natural(fields, "compute_major");
  gpu.compute_minor = read_natural(fields, "compute_minor");
  gpu.multiprocessors = read_natural(fields, "multiprocessors");
  gpu.clock_khz = read_natural(fields, "clock_khz");
  gpu.memory_clock_khz = read_natural(fields, "memory_clock_khz");
  gpu.numa_node = read_natural_if_given(fields, "numa_node");
  if (fields.has("pci_path")) gpu.pci_path = fields.text("pci_path");
  gpu.clock_now_khz = read_natural_if_given(fields, "clock_now_khz");
  gpu.memory_clock_now_khz = read_natural_if_given(fields, "memory_clock_now_khz");
  if (fields.has("slowed_by")) gpu.slowed_by = fields.texts("slowed_by");
  if (fields.has("peers")) gpu.peers = fields.list<GpuPeer>("peers");
}

void to_json(nlohmann::ordered_json& json, const GpuListing& listing) {
  json = nlohmann::ordered_json{{"protocol", GpuListing::current_protocol},
                                {"backend", listing.backend},
                                {"is_exact", listing.is_exact},
                                {"driver", listing.driver},
                                {"runtime", listing.runtime},
                                {"nccl", listing.nccl},
                                {"gpus", listing.gpus}};
  if (!listing.why_none.empty()) json["why_none"] = listing.why_none;
  if (!listing.why_no_records.empty()) json["why_no_records"] = listing.why_no_records;
}

void from_json(const nlohmann::ordered_json& json, GpuListing& listing) {
  const Fields fields(json, "list of GPUs");
  const int protocol = fields.integer<int>("protocol");
  if (protocol != GpuListing::current_protocol)
    refuse(fields.where("protocol"), fmt::format("{}", GpuListing::current_protocol), protocol);
  listing.backend = fields.text("backend");
  listing.is_exact = fields.boolean("is_exact");
  listing.driver = read_natural(fields, "driver");
  listing.runtime = read_natural(fields, "runtime");
  listing.nccl = read_natural(fields, "nccl");
  listing.gpus = fields.list<GpuInfo>("gpus");
  if (fields.has("why_none")) listing.why_none = fields.text("why_none");
  if (fields.has("why_no_records")) listing.why_no_records = fields.text("why_no_records");
  if (listing.gpus.empty() == listing.why_none.empty())
    throw std::invalid_argument("list of GPUs: expected GPUs in \"gpus\", or why there are none in \"why_none\"");
  std::set<std::string> uuids;
  for (const GpuInfo& gpu : listing.gpus) {
    if (!uuids.insert(gpu.uuid).second)
      throw std::invalid_argument(fmt::format("list of GPUs: two GPUs are {}", gpu.uuid));
  }
  for (const GpuInfo& gpu : listing.gpus) {
    std::set<std::string> others = uuids;
    others.erase(gpu.uuid);
    for (const GpuPeer& peer : gpu.peers) {
      if (others.erase(peer.uuid) == 0)
        throw std::invalid_argument(
            fmt::format("list of GPUs: expected each peer of {} to be another GPU of the list, listed once; found {}",
                        gpu.uuid, peer.uuid));
    }
  }
}

std::vector<std::pair<std::size_t, std::size_t>> unreachable_pairs(std::span<const GpuInfo> gpus) {
  const auto is_closed = [](const GpuInfo& from, const GpuInfo& to) {
    const auto peer = std::ranges::find(from.peers, to.uuid, &GpuPeer::uuid);
    return peer != from.peers.end() && !peer->can_access;
  };
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  for (std::size_t one = 0; one < gpus.size(); ++one) {
    for (std::size_t other = one + 1; other < gpus.size(); ++other) {
      if (is_closed(gpus[one], gpus[other]) || is_closed(gpus[other], gpus[one])) pairs.emplace_back(one, other);
    }
  }
  return pairs;
}

std::string pairs_text(std::span<const std::pair<std::size_t, std::size_t>> pairs) {
  constexpr std::size_t shown = 3;
  std::string text;
  for (const auto& [one, other] : pairs.first(std::min(pairs.size(), shown)))
    text += fmt::format("{}{} and {}", text.empty() ? "" : ", ", one, other);
  return pairs.size() > shown ? text + fmt::format(", and {} more", pairs.size() - shown) : text;
}

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string nccl_version_text(int version) {
  return fmt::format("{}.{}.{}", version / 10'000, version % 10'000 / 100, version % 100);
}

}  // namespace shardproof::protocol

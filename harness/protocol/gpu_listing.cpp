#include "harness/protocol/gpu_listing.hpp"

#include <set>

#include "harness/protocol/json_fields.hpp"

namespace shardproof {

namespace {

int read_natural(const Fields& fields, const char* name) {
  const int number = fields.integer<int>(name);
  if (number < 0) refuse(fields.where(name), "no negative number", fields.at(name, "an integer"));
  return number;
}

/// Lists of GPUs are written with commas between them.
const std::string& read_uuid(const Fields& fields) {
  const std::string& uuid = fields.text("uuid");
  const auto is_plain = [](char c) { return c > ' ' && c <= '~' && c != ','; };
  if (uuid.empty() || !std::ranges::all_of(uuid, is_plain)) refuse(fields.where("uuid"), "a name without blanks and commas", uuid);
  return uuid;
}

}  // namespace

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
  if (protocol != GpuListing::current_protocol) refuse(fields.where("protocol"), fmt::format("{}", GpuListing::current_protocol), protocol);
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
    if (!uuids.insert(gpu.uuid).second) throw std::invalid_argument(fmt::format("list of GPUs: two of them are {}", gpu.uuid));
  }
}

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string nccl_version_text(int version) { return fmt::format("{}.{}.{}", version / 10'000, version % 10'000 / 100, version % 100); }

}  // namespace shardproof

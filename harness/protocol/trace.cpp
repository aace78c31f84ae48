#include "harness/protocol/trace.hpp"

#include <array>
#include <cstddef>

namespace shardproof {

namespace {

// In the order of the enumerators, as in all tables below.
constexpr std::array<std::string_view, 6> stream_roles{"compute", "copy_in",    "all_gather",
                                                       "reduce",  "all_reduce", "other"};
constexpr std::array<std::string_view, 11> work_kinds{"forward",        "backward",        "copy_in", "copy_out",
                                                      "reduce_copy_in", "reduce_copy_out", "loss",    "optimizer",
                                                      "fill",           "snapshot",        "other"};
constexpr std::array<std::string_view, 9> memory_classes{"shard",           "gathered",         "parameter",
                                                         "gradient",        "sharded_gradient", "reduce_input",
                                                         "optimizer_state", "activation",       "other"};

static_assert(static_cast<std::size_t>(StreamRole::other) + 1 == stream_roles.size());
static_assert(static_cast<std::size_t>(WorkKind::other) + 1 == work_kinds.size());
static_assert(static_cast<std::size_t>(MemoryClass::other) + 1 == memory_classes.size());

template <class Enum, std::size_t count>
std::string_view name_of(Enum value, const std::array<std::string_view, count>& names) {
  const auto index = static_cast<std::size_t>(value);
  return index < count ? names[index] : "invalid";
}

}  // namespace

std::string_view to_string(StreamRole role) { return name_of(role, stream_roles); }
std::string_view to_string(WorkKind kind) { return name_of(kind, work_kinds); }
std::string_view to_string(MemoryClass memory) { return name_of(memory, memory_classes); }

std::map<std::uint32_t, StreamInfo> streams(const Trace& trace) {
  std::map<std::uint32_t, StreamInfo> found{{0, {StreamRole::compute, "compute"}}};
  for (const Fact& fact : trace.facts) {
    if (const auto* created = std::get_if<fact::StreamCreated>(&fact))
      found[created->stream] = {created->role, created->name};
  }
  return found;
}

}  // namespace shardproof

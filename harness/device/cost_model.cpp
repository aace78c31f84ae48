#include "harness/device/cost_model.hpp"

#include "harness/trace/virtual_clock.hpp"

namespace shardproof {

Nanoseconds CostModel::of_work(WorkKind kind, const std::string& label) const {
  if (!labelled_work.empty()) {
    if (const auto found = labelled_work.find({kind, label}); found != labelled_work.end()) return found->second;
  }
  const auto found = work.find(kind);
  return found == work.end() ? 0 : found->second;
}

Nanoseconds CostModel::of_collective(CollectiveKind kind, const std::string& tag, std::size_t bytes) const {
  if (!tagged_collectives.empty()) {
    if (const auto found = tagged_collectives.find({kind, tag}); found != tagged_collectives.end())
      return found->second;
  }
  const auto found = collectives.find(kind);
  if (found == collectives.end()) return 0;
  const std::size_t begun_kib = bytes / 1024 + (bytes % 1024 != 0 ? 1 : 0);
  return trace::later(found->second.fixed, trace::multiple(found->second.per_kib, begun_kib));
}

}  // namespace shardproof

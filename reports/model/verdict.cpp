#include "reports/model/verdict.hpp"

namespace shardproof::reports {

namespace {

constexpr std::array<std::string_view, all_verdicts.size()> verdict_names{"passed", "skipped",   "not_run", "error",
                                                                          "failed", "disagreed", "hung",    "crashed"};

}  // namespace

std::string_view to_string(Verdict verdict) {
  const auto index = static_cast<std::size_t>(verdict);
  return index < verdict_names.size() ? verdict_names[index] : "unknown";
}

std::optional<Verdict> verdict_from_string(std::string_view text) {
  for (const auto verdict : all_verdicts) {
    if (to_string(verdict) == text) return verdict;
  }
  return std::nullopt;
}

}  // namespace shardproof::reports

#include "reports/merge/case_evidence.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace shardproof::reports {

void add_failures(CaseResult& result, StreamedCase& streamed, int rank, bool was_released) {
  result.failures_left_out += streamed.failures_left_out;
  for (auto& failure : streamed.failures) {
    if (was_released && failure.macro.empty()) continue;
    result.failures.push_back({rank, std::move(failure)});
  }
  // Keeps at most twice as many, so that a thousand failing ranks cost only a few sorts.
  if (result.failures.size() > 2 * failures_kept) keep_first_failures(result);
}

void keep_first_failures(CaseResult& result) {
  std::ranges::stable_sort(result.failures, {}, [](const Failure& failure) {
    return std::pair(failure.assertion.monotonic_ns, failure.rank);
  });
  if (result.failures.size() <= failures_kept) return;
  result.failures_left_out += result.failures.size() - failures_kept;
  result.failures.resize(failures_kept);
}

bool MeasurementMerge::add(CaseResult& result, const StreamedCase& streamed, int rank, bool has_passed,
                           std::string_view device) {
  if (!has_passed || first_passed_ < 0) {
    if (has_passed) {
      first_passed_ = rank;
      result.measurements.clear();
    } else if (first_passed_ >= 0) {
      return true;
    }
    for (const auto& measured : streamed.measurements)
      result.measurements.try_emplace(measured.name, Measurement{measured.value, measured.unit});
    return true;
  }
  bool is_equal = true;
  const auto differs = [&](const std::string& name, const std::string& here, const std::string& there) {
    is_equal = false;
    result.notes.push_back(fmt::format("measurement {}: {} on rank {}, {} on rank {}; every rank must measure the same",
                                       name, there, first_passed_, here, rank));
  };
  for (const auto& measured : streamed.measurements) {
    const Measurement here{measured.value, measured.unit};
    const auto there = result.measurements.find(measured.name);
    if (there == result.measurements.end()) {
      differs(measured.name, to_text(here), "none");
    } else if (!is_exact(device, measured.unit) && there->second.unit == here.unit) {
      there->second.value = std::max(there->second.value, here.value);  // the user waits for the slowest rank
    } else if (!(there->second == here)) {
      differs(measured.name, to_text(here), to_text(there->second));
    }
  }
  if (streamed.measurements.size() < result.measurements.size()) {
    for (const auto& [name, there] : result.measurements) {
      const auto same = [&wanted = name](const protocol::event::Measured& measured) { return measured.name == wanted; };
      if (std::none_of(streamed.measurements.begin(), streamed.measurements.end(), same))
        differs(name, "none", to_text(there));
    }
  }
  return is_equal;
}

}  // namespace shardproof::reports

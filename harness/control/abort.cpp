#include "harness/control/abort.hpp"

#include <fmt/format.h>

#include <utility>

namespace shardproof::control {

std::string_view to_string(AbortReason reason) {
  switch (reason) {
    case AbortReason::failed: return "failed";
    case AbortReason::error: return "error";
    case AbortReason::skipped: return "skipped";
    case AbortReason::died: return "died";
    case AbortReason::deadline: return "deadline";
    case AbortReason::deadlock: return "deadlock";
    case AbortReason::disagreed: return "disagreed";
    case AbortReason::interrupted: return "interrupted";
  }
  return "unknown reason";
}

Released::Released(Abort abort)
    : std::runtime_error(fmt::format("released: {} {}{}{}",
                                     abort.culprit < 0 ? "the launcher:" : fmt::format("rank {}:", abort.culprit),
                                     to_string(abort.reason), abort.text.empty() ? "" : ": ", abort.text)),
      abort_(std::move(abort)) {}

}  // namespace shardproof::control

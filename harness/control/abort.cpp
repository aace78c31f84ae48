#include "harness/control/abort.hpp"
#include "harness/base/enum_names.hpp"

#include <fmt/format.h>

#include <utility>

namespace shardproof::control {

std::string_view to_string(AbortReason reason) {
  return base::name_of<AbortReason::no_room>(
      reason, {"failed", "error", "skipped", "died", "deadline", "deadlock", "disagreed", "interrupted", "no_room"});
}

Abort no_room_for(int rank, std::string_view why) {
  return {.culprit = rank,
          .reason = AbortReason::no_room,
          .text = fmt::format("rank {} has no room for shared memory: {}", rank, why)};
}

Released::Released(Abort abort)
    : std::runtime_error(fmt::format("released: {} {}{}{}",
                                     abort.culprit < 0 ? "the launcher:" : fmt::format("rank {}:", abort.culprit),
                                     to_string(abort.reason), abort.text.empty() ? "" : ": ", abort.text)),
      abort_(std::move(abort)) {}

}  // namespace shardproof::control

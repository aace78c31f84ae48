// Which of a worker's cases a command is about before filters select from them. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "harness/protocol/case_info.hpp"

namespace shardproof::launcher {

struct ChosenProfile {
  std::string name;         ///< empty for a worker that has none
  std::size_t outside = 0;  ///< cases of the worker that do not belong to it
};

/// Takes all cases from the listing that are not in the profile `asked`, or in the worker's first where nothing was asked for. Throws
/// CommandError (usage) for a profile that does not exist or has no case, and for a filter that matches only cases outside of it.
ChosenProfile keep_profile(Listing& listing, const std::string& asked, std::span<const std::string> filters);

}  // namespace shardproof::launcher

// The profile of a command: the worker's cases that its filters can select from. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "harness/protocol/case_info.hpp"

namespace shardproof::launcher {

struct ChosenProfile {
  std::string name;         ///< empty: the worker has no profile
  std::size_t outside = 0;  ///< cases of the worker outside the profile
};

/// Removes all cases outside the profile `requested` from the listing. If `requested` is empty, uses the worker's first
/// profile. Throws CommandError (usage):
///   - for a profile that does not exist or has no case,
///   - for a filter that matches only cases outside the profile.
ChosenProfile keep_profile(protocol::Listing& listing, const std::string& requested,
                           std::span<const std::string> filters);

}  // namespace shardproof::launcher

// Suggests a name that exists for a name that does not. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace shardproof {

/// The candidate that is least unlike `asked`. Empty if more than half of `asked` would have to change for each candidate.
std::string closest(const std::set<std::string>& candidates, std::string_view asked);

/// For the end of a refusal: `closest is "layer"`, or else the names that exist, the first few of them: `there are "head", "layer"`.
/// `there is none` without any candidate.
std::string closest_or_all(const std::set<std::string>& candidates, std::string_view asked);

}  // namespace shardproof

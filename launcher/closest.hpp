// What somebody may have meant by a name that does not exist. Pure.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace shardproof::launcher {

/// The candidate that is least unlike `asked`; empty when none is like it, that is when more than half of it would have to change.
std::string closest(const std::set<std::string>& candidates, std::string_view asked);

}  // namespace shardproof::launcher

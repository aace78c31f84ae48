// Case filters select the cases that a user means. A filter is a suite, an id, a glob over ids (`*` and `?`), or
// `[tag]`. Several filters form a union.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/case_info.hpp"

namespace shardproof::protocol {

/// Brackets in a filter are literal unless the whole filter is `[tag]`, because ids contain brackets.
bool matches(const CaseInfo& info, std::string_view filter);

/// True when the glob `pattern` matches the id, or the part of the id before its parameters. Brackets are literal.
bool matches_id(std::string_view id, std::string_view pattern);

/// The cases that any filter matches, in listed order. Without a filter: all cases. Throws std::invalid_argument, which
/// names the first filter that matches nothing.
std::vector<CaseInfo> select(std::span<const CaseInfo> cases, std::span<const std::string> filters);

}  // namespace shardproof::protocol

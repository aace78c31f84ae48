// Which cases a user means: a suite, an id, a glob over ids (`*` and `?`), or `[tag]`; several filters are a union.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/case_info.hpp"

namespace shardproof {

/// Brackets in a filter are literal unless the whole filter is `[tag]`: ids contain them.
bool matches(const CaseInfo& info, std::string_view filter);

/// Whether the pattern, a glob, is that of the id or of the id before its parameters. Brackets are literal.
bool matches_id(std::string_view id, std::string_view pattern);

/// The cases that any filter matches, in listed order; all of them when there is no filter.
/// Throws std::invalid_argument naming the first filter that matches nothing.
std::vector<CaseInfo> select(std::span<const CaseInfo> cases, std::span<const std::string> filters);

}  // namespace shardproof

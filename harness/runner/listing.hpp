// What a program says about itself when it is asked for its cases.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/cases/bound_case.hpp"
#include "harness/runner/rank_main.hpp"

namespace shardproof {

/// The rows `| OVL-1 | required | text |` of a Markdown text; `reference` instead of `required` for clauses that only the model engine must
/// meet. Throws std::invalid_argument quoting a row that begins with a clause id and is not of this form.
std::vector<ClauseInfo> parse_clauses(std::string_view markdown);

/// Identifies the running binary: its linker's build id in hex, or a digest of its file where it was linked without one.
std::string build_id();

/// Throws std::invalid_argument on a malformed or doubly defined clause or profile.
Listing make_listing(const Program& program, std::span<const BoundCase> cases);

}  // namespace shardproof

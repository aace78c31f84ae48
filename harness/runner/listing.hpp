// The listing of a program: the answer to a launcher that asks for its cases.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/cases/bound_case.hpp"
#include "harness/runner/rank_main.hpp"

namespace shardproof::runner {

/// Parses the rows `| OVL-1 | required | text |` of a Markdown text. Clauses that only the model engine must meet have
/// `reference` instead of `required`. Throws std::invalid_argument with a row that begins with a clause id and does not
/// have this form.
std::vector<protocol::ClauseInfo> parse_clauses(std::string_view markdown);

/// Identifies the running binary: the linker's build id in hex. Without a build id, a digest of the file.
std::string build_id();

/// Throws std::invalid_argument for a malformed or twice defined clause or profile.
protocol::Listing make_listing(const Program& program, const ProgramExtension& extension,
                               const std::filesystem::path& library, std::span<const cases::BoundCase> cases);

}  // namespace shardproof::runner

// The main function of a program of ranked cases. It lists the cases, or runs as a rank of a world.
//
// The room `runner` has the main function of a rank: lockstep, Catch2, and the answers of a program. Only its folder
// `play` may know scenarios, devices and subjects.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/runner/program_extension.hpp"

namespace shardproof {

/// The texts of a program besides its cases. A program of plain multi-rank tests may have none of them.
struct Program {
  std::string suite_version = "0";
  /// JSON: an array of ProfileInfo (harness/protocol/case_info.hpp), with the default profile first. Empty: none.
  std::string_view profiles;
  /// Markdown texts that hold `| OVL-1 | required | … |` rows.
  std::vector<std::string_view> clause_tables;
};

/// Returns a RankExit (harness/protocol/ending.hpp).
int rank_main(int argc, char** argv, const Program& program = {}, const ProgramExtension& extension = {});

}  // namespace shardproof

// The main function of a program of ranked cases. It lists the cases, or runs as a rank of a world.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/faults/fault.hpp"
#include "harness/subject/subject.hpp"

namespace shardproof {

/// The parts of a program besides its cases. A program of plain multi-rank tests has none of them.
struct Program {
  std::string suite_version = "0";
  std::vector<std::function<std::unique_ptr<Subject>()>> subjects;  ///< the first is the default
  std::vector<Fault> faults;
  /// JSON: an array of ProfileInfo (harness/protocol/case_info.hpp), with the default profile first. Empty: none.
  std::string_view profiles;
  /// Markdown texts that hold `| OVL-1 | required | … |` rows.
  std::vector<std::string_view> clause_tables;
};

/// Returns a RankExit (harness/protocol/ending.hpp).
int rank_main(int argc, char** argv, const Program& program = {});

}  // namespace shardproof

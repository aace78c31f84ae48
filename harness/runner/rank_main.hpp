// The main function of a program of ranked cases: lists them, or runs as one rank of a world.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/faults/fault.hpp"
#include "harness/subject/subject.hpp"

namespace shardproof {

/// What a program brings besides its cases. A program of plain multi-rank tests brings nothing.
struct Program {
  std::string suite_version = "0";
  std::vector<std::function<std::unique_ptr<Subject>()>> subjects;  ///< the first is the default
  std::vector<Fault> faults;
  std::string_view profiles;  ///< JSON: an array of ProfileInfo (harness/protocol/case_info.hpp), the default first; empty for none
  std::vector<std::string_view> clause_tables;  ///< Markdown texts that hold `| OVL-1 | required | … |` rows
};

/// Returns a RankExit (harness/protocol/ending.hpp).
int rank_main(int argc, char** argv, const Program& program = {});

}  // namespace shardproof

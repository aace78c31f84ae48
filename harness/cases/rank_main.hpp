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
  std::vector<std::string_view> clause_tables;  ///< Markdown texts that hold `| OVL-1 | required | … |` rows
};

/// The process's exit code. Verdicts are in the stream, never in the code.
enum RankExit : int {
  rank_left = 0,          ///< listed, or left its world in order
  rank_usage = 2,         ///< bad arguments or a program whose cases are declared wrongly
  rank_could_not_join = 3,  ///< could not join its world, or could not go on in it by its own fault
  rank_released = 4,      ///< left because its world was doomed: another rank died or overran
};

int rank_main(int argc, char** argv, const Program& program = {});

}  // namespace shardproof

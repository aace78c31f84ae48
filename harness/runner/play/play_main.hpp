// The main function of a program whose cases play scenarios on subjects. A program that calls it links
// shardproof::play.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/faults/fault.hpp"
#include "harness/subject/subject.hpp"

namespace shardproof {

using SubjectMaker = std::function<std::unique_ptr<Subject>()>;

/// The parts of a program besides its cases.
struct PlayProgram {
  std::string suite_version = "0";
  std::vector<SubjectMaker> subjects;  ///< The first is the default.
  std::vector<Fault> faults;
  /// See Program (harness/runner/rank_main.hpp).
  std::string_view profiles;
  std::vector<std::string_view> clause_tables;
};

/// Returns a RankExit (harness/protocol/ending.hpp).
int play_main(int argc, char** argv, const PlayProgram& program = {});

}  // namespace shardproof

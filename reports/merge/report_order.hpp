// The order of worlds and cases in a report, in whatever order they were merged. Pure.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "reports/model/report.hpp"

namespace shardproof::reports {

/// Decides the position of a world in the report.
struct WorldPlace {
  int attempt = 0, planned = -1;
  std::size_t left = 0;  ///< The number of cases from its first case to the end of the planned world.
  std::string first_case;  ///< First case of a world that tries cases again.
  bool has_folder = false;
};

/// Orders the worlds. First come the planned worlds, each followed by the worlds that continue it. Then come the worlds
/// that try cases again, by attempt and case. A world without a folder gets a number after all folders. `places` are
/// the worlds' places.
void order_worlds(Report& report, std::span<const WorldPlace> places);

/// Orders the cases by id, and numbers their repetitions. Marks attempts that a later attempt supersedes.
void order_cases(Report& report);

}  // namespace shardproof::reports

// The options of `play`, and its part that compares two subjects.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/files/claimed_directory.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/terminal/terminal.hpp"

namespace shardproof::launcher {

struct PlayOptions {
  std::filesystem::path scenario;
  PlanOptions plan;  ///< for its one world
  std::filesystem::path worker;
  OutputOptions out;  ///< Empty: the command keeps no output.
  std::filesystem::path trace;  ///< A file for Perfetto. Empty: no file.
  bool show_plan = false;  ///< Print the compiled steps.
  std::filesystem::path plan_dot;  ///< A file for Graphviz with the compiled steps. Empty: no file.
  std::uint64_t ulps = 0;  ///< With two subjects: values may differ by so many units in the last place.
  bool json = false;
  TerminalOptions terminal;
};

/// `shardproof play SCENARIO --subject A,B`: plays the scenario on both subjects, and shows the differences. Returns
/// the exit code, or throws CommandError.
int play_on_two(const PlayOptions& options, const std::vector<std::string>& argv);

}  // namespace shardproof::launcher

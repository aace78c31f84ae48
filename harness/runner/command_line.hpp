// The arguments of a program of ranked cases. They are few: its user talks to the launcher.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Scenarios that are to be made: of `count` seeds from the first one on.
struct ScenariosAsked {
  std::uint64_t first_seed = 0;
  std::uint64_t count = 1;
  std::string engine;                  ///< the kind that scenarios are for; empty: the first that can be drawn
  std::vector<int> ranks;              ///< of which a seed chooses one; of a scenario that is to be made smaller, as many as play it
  std::vector<std::string> features;   ///< that a subject claims
  std::vector<std::string> left_out;   ///< features and ingredients (harness/scenario/generator/generator.hpp)
};

struct CommandLine {
  enum class Mode : std::uint8_t { none, help, list, check_scenario, make_scenario, shrink_scenario, list_gpus, warm, foreign };
  Mode mode = Mode::none;
  std::filesystem::path scenario;  ///< to be checked, or made smaller
  ScenariosAsked asked;            ///< of those that are to be made
  std::filesystem::path backend;   ///< whose GPUs are to be listed
  // Of a warm process, or of a rank under somebody else's launcher:
  std::string subject;  ///< a name among the program's own
  std::filesystem::path subject_library;  ///< absolute; to be listed, too
  // Of such a rank:
  std::filesystem::path run_directory;
  std::vector<std::string> filters;
  std::uint64_t seed = 0;
};

/// `arguments` are without the program's name, which errors show how to use. Throws UsageError saying what was not understood.
CommandLine parse_command_line(std::span<const std::string_view> arguments, std::string_view program);

/// What the program is and how it is run.
std::string usage(std::string_view program);

}  // namespace shardproof

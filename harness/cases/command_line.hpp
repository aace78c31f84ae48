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

struct CommandLine {
  enum class Mode : std::uint8_t { none, help, list, check_scenario, list_gpus, warm, foreign };
  Mode mode = Mode::none;
  std::filesystem::path scenario;  ///< to be checked
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

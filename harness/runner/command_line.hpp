// The arguments of a program of ranked cases. They are few: a program without one of them is a rank, or becomes the
// launcher, which takes the arguments.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::runner {

class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A request for scenarios: one for each of `count` seeds, from `first_seed` on.
struct ScenariosAsked {
  std::uint64_t first_seed = 0;
  std::uint64_t count = 1;
  /// The kind of engine that scenarios are for. Empty: the first kind that the generator supports.
  std::string engine;
  /// The seed chooses one of these numbers of ranks. To shrink a scenario: the single number of ranks that play it.
  std::vector<int> ranks;
  std::vector<std::string> features;   ///< that a subject claims
  /// Features and ingredients to leave out (harness/scenario/generator/generator.hpp).
  std::vector<std::string> left_out;
};

struct CommandLine {
  enum class Mode : std::uint8_t {
    none,
    help,
    list,
    check_scenario,
    make_scenario,
    shrink_scenario,
    list_gpus,
    warm,
    foreign
  };
  Mode mode = Mode::none;  ///< None: the program is a rank of our launcher, or becomes the launcher.
  std::filesystem::path scenario;  ///< the document to check or to shrink
  ScenariosAsked asked;            ///< the scenarios to make
  std::filesystem::path backend;   ///< the backend whose GPUs the program lists
  // For a warm process, or a rank under a foreign launcher (torchrun, mpirun, srun):
  std::string subject;  ///< One of the program's own subjects.
  std::filesystem::path subject_library;  ///< Absolute path. Also for a listing.
  // For a rank under a foreign launcher:
  std::filesystem::path run_directory;
  std::vector<std::string> filters;
  std::uint64_t seed = 0;
};

/// `arguments` does not contain the program's name. Throws UsageError with the argument that it does not understand.
CommandLine parse_command_line(std::span<const std::string_view> arguments);

/// The help text: the program's purpose and its arguments.
std::string usage(std::string_view program);

}  // namespace shardproof::runner

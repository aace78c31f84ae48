// The way of a program of ranked cases to its launcher, if a user starts the program itself. The program becomes
// `shardproof run --worker PROGRAM`, with the user's options.
//
// CMake knows the launcher's path, and the libraries do not. So CMake adds a source file to each program that links
// shardproof::main or shardproof::play (cmake/ShardproofDiscoverTests.cmake). The file defines
// `shardproof_launcher_path`.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::runner {

/// No launcher was found. The message has the places that were searched, and what to do.
class NoLauncher : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The places to search, in this order. An empty place is not searched.
struct LauncherPlaces {
  std::string variable;  ///< The value of SHARDPROOF_LAUNCHER. If it has one, no other place is searched.
  /// The path that CMake has compiled into the program. A relative path begins in the program's folder.
  std::filesystem::path compiled_in;
  std::filesystem::path program_folder;
  std::string search_path;  ///< the value of PATH
};

using IsProgram = std::function<bool(const std::filesystem::path&)>;

/// The launcher. `is_program` says whether a path is a file that can be executed. Throws NoLauncher.
std::filesystem::path find_launcher(const LauncherPlaces& places, const IsProgram& is_program);

/// The command that runs the cases of `program` with the user's `options`.
std::vector<std::string> launcher_command(const std::filesystem::path& launcher, const std::string& program,
                                          std::span<const std::string_view> options);

/// Prints this command, and becomes it. `name` is the name by which the user called the program. Throws NoLauncher, and
/// std::system_error if the launcher cannot be executed.
[[noreturn]] void become_launcher(const std::string& name, std::span<const std::string_view> options);

}  // namespace shardproof::runner

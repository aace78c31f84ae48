// Runs the built `shardproof` as a user would, and keeps its output.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <string>
#include <vector>

#include "launcher/process/process.hpp"
#include "tests/launcher/temporary.hpp"

namespace shardproof::launcher {

inline std::ostream& operator<<(std::ostream& out, const Exit& end) { return out << describe(end); }

}  // namespace shardproof::launcher

namespace shardproof::launcher::testing {

inline Exit code(int number) { return {.signalled = false, .code = number}; }

struct Said {
  Exit end;
  std::string out, err;
};

struct Setting {
  std::vector<std::string> environment;  ///< Variables in addition to PATH.
  std::vector<std::string> wrapper;  ///< A program, with arguments, that runs the shell that becomes the launcher.
  std::string prelude;  ///< The commands that this shell runs first.
  /// Called while the launcher runs, with its process and its output so far.
  std::function<void(Process&, const std::function<std::string()>&)> meanwhile;
};

/// The text with each line that the command has wrapped in one line.
std::string unwrapped(const std::string& text);

/// Runs `shardproof ARGUMENTS…` in its own empty directory.
Said call(const std::vector<std::string>& arguments, const Setting& setting = {});

/// The program with the trouble cases.
std::filesystem::path trouble_program();

/// Runs `shardproof run` with this program, into the directory `out`.
Said run_trouble(const std::filesystem::path& out, const std::vector<std::string>& arguments,
                 const Setting& setting = {});

/// The verdicts of a report, by case id.
using Verdicts = std::map<std::string, std::string>;
Verdicts verdicts(const std::filesystem::path& run_directory);
nlohmann::json report_of(const std::filesystem::path& run_directory);

/// Whether a process is gone, or a zombie that its parent has not waited for.
bool has_ended(pid_t process);

/// Waits until `found` holds. Returns false after a minute.
bool eventually(const std::function<bool()>& found);

}  // namespace shardproof::launcher::testing

// Runs the built `shardproof` as a user would, and keeps what it said.
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
  std::vector<std::string> environment;  ///< beside PATH
  std::vector<std::string> wrapper;      ///< a program and its arguments that runs the shell that becomes the launcher
  std::string prelude;                   ///< what that shell does first
  /// Called while the launcher runs; its process and what it has said so far.
  std::function<void(Process&, const std::function<std::string()>&)> meanwhile;
};

/// `shardproof ARGUMENTS…` in an empty directory of its own.
Said call(const std::vector<std::string>& arguments, const Setting& setting = {});

/// The program of troubled cases.
std::filesystem::path trouble_program();

/// `shardproof run` of this program, into the directory `out`.
Said run_trouble(const std::filesystem::path& out, const std::vector<std::string>& arguments, const Setting& setting = {});

/// Of a report, by case id.
using Verdicts = std::map<std::string, std::string>;
Verdicts verdicts(const std::filesystem::path& run_directory);
nlohmann::json report_of(const std::filesystem::path& run_directory);

/// Whether a process is gone, or a zombie that its parent has not waited for.
bool has_ended(pid_t process);

/// Until `found` holds; false after a minute.
bool eventually(const std::function<bool()>& found);

}  // namespace shardproof::launcher::testing

// Opens and reads a report that a user named. The commands that read reports use it.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <istream>
#include <memory>
#include <stdexcept>
#include <string>

#include "harness/base/input_file.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {

/// The report's file. `named` is a report or a run directory.
std::filesystem::path report_path(const std::filesystem::path& named);

/// The end of an error about a report in a run directory: how to make it again. Empty for another file.
std::string merge_hint(const std::filesystem::path& report);

/// Opens the report that `named` is or has. Throws CommandError (usage) naming the file if it cannot be read.
std::unique_ptr<std::istream> open_report(const std::filesystem::path& named);

/// Returns the result of `read`. Turns each exception of `read` into a CommandError (usage) that names the file.
template <class Read>
auto read_report_file(const std::filesystem::path& named, const Read& read) {
  const std::filesystem::path file = report_path(named);
  const std::unique_ptr<std::istream> in = open_report(named);
  try {
    return read(*in);
  } catch (const std::exception& error) {
    throw CommandError(usage, fmt::format("{} is not a report: {}{}", file.string(), error.what(), merge_hint(file)));
  }
}

}  // namespace shardproof::launcher

// Opening a report that a user named.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <istream>
#include <stdexcept>

#include "launcher/launcher.hpp"

namespace shardproof::launcher {

/// The report behind a file or a run directory. CommandError (usage) naming the file when it cannot be read.
std::ifstream open_report(std::filesystem::path path);

/// What `read` makes of it; whatever it throws becomes a CommandError (usage) that names the file.
template <class Read>
auto read_report_file(const std::filesystem::path& path, const Read& read) {
  std::ifstream in = open_report(path);
  try {
    return read(in);
  } catch (const std::exception& error) {
    throw CommandError(usage, fmt::format("{} is no report: {}", path.string(), error.what()));
  }
}

}  // namespace shardproof::launcher

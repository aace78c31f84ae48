// Opens the log of a process.
#pragma once

#include <filesystem>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::base {

/// An empty file to which several processes may append. Never opens a link. Returns an empty descriptor, with errno,
/// if the file cannot be opened.
FileDescriptor open_log_file(const std::filesystem::path& file);

}  // namespace shardproof::base

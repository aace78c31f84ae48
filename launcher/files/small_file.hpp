// Reads small files that may be missing, such as most files in /proc. An unreadable file is empty.
#pragma once

#include <filesystem>
#include <string>

namespace shardproof::launcher {

std::string whole_text(const std::filesystem::path& file);
/// Without the line end.
std::string first_line(const std::filesystem::path& file);
/// The last 2 KiB of a possibly large file, without the last line end.
std::string last_words(const std::filesystem::path& file);

}  // namespace shardproof::launcher

// Small files that may not be there, as most of what the kernel tells in /proc: what cannot be read is empty.
#pragma once

#include <filesystem>
#include <string>

namespace shardproof::launcher {

std::string whole_text(const std::filesystem::path& file);
/// Without its end.
std::string first_line(const std::filesystem::path& file);
/// Of what may be large: its last 2 KiB, without its end.
std::string last_words(const std::filesystem::path& file);

}  // namespace shardproof::launcher

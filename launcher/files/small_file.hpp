// Reads small files that may be missing, such as most files in /proc. An unreadable file is empty.
#pragma once

#include <filesystem>
#include <string>

namespace shardproof::launcher {

std::string whole_text(const std::filesystem::path& file);
/// Without the line end.
std::string first_line(const std::filesystem::path& file);
/// A file of evidence. A rank may have replaced it, or made it larger than a megabyte: then the text says what is
/// there.
std::string evidence_text(const std::filesystem::path& file);
/// The last 2 KiB of a possibly large log of a rank, without the last line end. A rank may have replaced its log: then
/// the text says what is there. `folders`: as in open_evidence_file.
std::string last_words(const std::filesystem::path& file, int folders = 0);

}  // namespace shardproof::launcher

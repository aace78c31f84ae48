#include "launcher/files/small_file.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "harness/base/input_file.hpp"

namespace shardproof::launcher {

namespace {

/// Opens regular files only. Opening a pipe would block, so all other files are empty.
std::ifstream opened(const std::filesystem::path& file) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(file, unknown) ? std::ifstream(file) : std::ifstream();
}

}  // namespace

std::string whole_text(const std::filesystem::path& file) {
  std::ifstream in = opened(file);
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

std::string first_line(const std::filesystem::path& file) {
  std::ifstream in = opened(file);
  std::string line;
  std::getline(in, line);
  return line;
}

std::string evidence_text(const std::filesystem::path& file) {
  constexpr std::size_t most_bytes = std::size_t{1} << 20;
  try {
    return base::read_evidence(file, 1, most_bytes);
  } catch (const base::UnreadableFile& error) {
    return base::is_there(file) ? error.what() : "";
  }
}

std::string last_words(const std::filesystem::path& file, int folders) {
  constexpr off_t most = 2048;
  try {
    const base::FileDescriptor in = base::open_evidence_file(file, folders);
    const off_t size = std::max<off_t>(::lseek(in.get(), 0, SEEK_END), 0);
    std::string text(static_cast<std::size_t>(std::min(size, most)), '\0');
    const ssize_t got = ::pread(in.get(), text.data(), text.size(), std::max<off_t>(size - most, 0));
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return text;
  } catch (const base::UnreadableFile& error) {
    return base::is_there(file) ? error.what() : "";
  }
}

}  // namespace shardproof::launcher

#include "launcher/files/small_file.hpp"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

namespace shardproof::launcher {

namespace {

/// Opens regular files only. Opening a pipe would block, so all other files are empty.
std::ifstream opened(const std::filesystem::path& file, std::ios::openmode mode = std::ios::in) {
  std::error_code unknown;
  return std::filesystem::is_regular_file(file, unknown) ? std::ifstream(file, mode) : std::ifstream();
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

std::string last_words(const std::filesystem::path& file) {
  constexpr std::streamoff most = 2048;
  std::ifstream in = opened(file, std::ios::binary);
  in.seekg(0, std::ios::end);
  const std::streamoff size = std::max<std::streamoff>(in.tellg(), 0);
  in.seekg(std::max<std::streamoff>(size - most, 0));
  std::string text(static_cast<std::size_t>(std::min(size, most)), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(in.gcount(), 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace shardproof::launcher

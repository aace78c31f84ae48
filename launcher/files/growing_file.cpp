#include "launcher/files/growing_file.hpp"

#include <array>
#include <fstream>
#include <system_error>

namespace shardproof::launcher {

std::string GrowingFile::read_new(std::size_t most) {
  std::error_code unknown;
  std::ifstream in;
  // opening a pipe would block
  if (std::filesystem::is_regular_file(file_, unknown)) in.open(file_, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(read_));
  std::string text;
  std::array<char, 65536> buffer{};
  while (in && text.size() < most) {
    in.read(buffer.data(), buffer.size());
    text.append(buffer.data(), static_cast<std::size_t>(in.gcount()));
  }
  read_ += text.size();
  return text;
}

}  // namespace shardproof::launcher

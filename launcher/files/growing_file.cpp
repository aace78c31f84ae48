#include "launcher/files/growing_file.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "harness/base/input_file.hpp"

namespace shardproof::launcher {

std::string GrowingFile::read_new(std::size_t most) {
  std::string text;
  try {
    const base::FileDescriptor in = base::open_evidence_file(file_, 1);
    std::array<char, 65536> buffer{};
    while (text.size() < most) {
      const ssize_t got = ::pread(in.get(), buffer.data(), buffer.size(), static_cast<off_t>(read_ + text.size()));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
  } catch (const base::UnreadableFile&) {  // it does not exist yet, or a rank has replaced it
  }
  read_ += text.size();
  return text;
}

}  // namespace shardproof::launcher

#include "harness/base/log_file.hpp"

#include <fcntl.h>

namespace shardproof::base {

FileDescriptor open_log_file(const std::filesystem::path& file) {
  return FileDescriptor(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0666));
}

}  // namespace shardproof::base

#include "harness/base/shared_memory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <system_error>

namespace shardproof::base {

int take_room(int descriptor, std::size_t bytes) {
  int error = 0;
  do {
    error = ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes));
  } while (error == EINTR);
  return error;
}

std::byte* map_shared(int descriptor, std::size_t bytes, std::string_view name) {
  void* address =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (descriptor < 0 ? MAP_ANONYMOUS : 0), descriptor, 0);
  if (address == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), fmt::format("{}: mmap of {} bytes", name, bytes));
  return static_cast<std::byte*>(address);
}

}  // namespace shardproof::base

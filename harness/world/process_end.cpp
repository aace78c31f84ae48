#include "harness/world/process_end.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace shardproof::world {

base::FileDescriptor open_process(pid_t process) {
  base::FileDescriptor opened(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (!opened && errno != ESRCH)
    throw std::system_error(errno, std::generic_category(), fmt::format("pidfd_open of process {}", process));
  return opened;
}

bool has_ended(const base::FileDescriptor& process, int timeout_ms) {
  pollfd watched{process.get(), POLLIN, 0};
  int ready = 0;
  do {
    ready = ::poll(&watched, 1, timeout_ms);
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace shardproof::world

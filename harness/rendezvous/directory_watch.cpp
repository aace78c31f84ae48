#include "harness/rendezvous/directory_watch.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>
#include <utility>

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

namespace shardproof::rendezvous {

void DirectoryWatch::arm() {
  notify_ = false;  // try only once, even if it fails
  base::FileDescriptor inotify(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (inotify && ::inotify_add_watch(inotify.get(), directory_.c_str(), IN_CREATE | IN_MOVED_TO) >= 0)
    inotify_ = std::move(inotify);
}

void DirectoryWatch::wait(control::Deadline deadline) {
  using namespace std::chrono;
  if (notify_ && pause_ == longest) return arm();  // the caller looks again and so sees earlier files
  const auto left = std::max(nanoseconds(0),
                             std::min(duration_cast<nanoseconds>(deadline - steady_clock::now()), nanoseconds(pause_)));
  pause_ = std::min(2 * pause_, longest);
  const timespec time{0, static_cast<long>(left.count())};
  pollfd watched{inotify_.get(), POLLIN, 0};  // poll ignores a negative descriptor, and the call is a pause
  const int found = ::ppoll(&watched, 1, &time, nullptr);
  if (found < 0 && errno != EINTR)
    throw std::system_error(errno, std::generic_category(), "poll on a watched directory");
  if (found > 0) {
    std::array<char, 4096> events;
    while (::read(inotify_.get(), events.data(), events.size()) > 0) {
    }
  }
}

}  // namespace shardproof::rendezvous

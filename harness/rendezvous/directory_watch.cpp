#include "harness/rendezvous/directory_watch.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <system_error>

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

namespace shardproof::rendezvous {

DirectoryWatch::DirectoryWatch(const std::filesystem::path& directory, bool notified) {
  if (!notified) return;
  descriptor_ = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (descriptor_ >= 0 && ::inotify_add_watch(descriptor_, directory.c_str(), IN_CREATE | IN_MOVED_TO) < 0) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
}

DirectoryWatch::~DirectoryWatch() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void DirectoryWatch::wait(Deadline deadline) {
  using namespace std::chrono;
  const auto left = std::max(nanoseconds(0), std::min(duration_cast<nanoseconds>(deadline - steady_clock::now()), nanoseconds(pause_)));
  pause_ = std::min(2 * pause_, longest);
  const timespec time{0, static_cast<long>(left.count())};
  pollfd watched{descriptor_, POLLIN, 0};  // a negative descriptor is passed over, and the call is a pause
  const int found = ::ppoll(&watched, 1, &time, nullptr);
  if (found < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "poll on a watched directory");
  if (found > 0) {
    std::array<char, 4096> events;
    while (::read(descriptor_, events.data(), events.size()) > 0) {
    }
  }
}

}  // namespace shardproof::rendezvous

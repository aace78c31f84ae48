#include "launcher/process/poller.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <system_error>

namespace shardproof::launcher {

Poller::Poller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
}

void Poller::add(int descriptor, std::uint64_t key) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = key;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl add");
}

void Poller::remove(int descriptor) {
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, descriptor, nullptr) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl remove");
}

std::vector<std::uint64_t> Poller::wait(std::optional<control::Deadline> deadline) {
  std::array<epoll_event, 64> events{};
  for (;;) {
    int timeout = -1;
    if (deadline) {
      // Rounded up: a wait that ends before its deadline would have to begin again.
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(*deadline - std::chrono::steady_clock::now()).count();
      timeout = static_cast<int>(std::clamp<std::int64_t>(left, 0, 1'000'000));
    }
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw std::system_error(errno, std::generic_category(), "epoll_wait");
    std::vector<std::uint64_t> keys;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t key =
          events[static_cast<std::size_t>(i)].data.u64;  // a copy: the structure is packed, its fields are not aligned
      keys.push_back(key);
    }
    return keys;
  }
}

}  // namespace shardproof::launcher

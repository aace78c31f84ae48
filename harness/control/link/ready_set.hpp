// ReadySet is a set of descriptors, and one descriptor that is readable while any of them is ready. Its owner gives
// that one to a poll loop, or asks for the ready descriptors now and then.
#pragma once

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <vector>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::control::link {

class ReadySet {
 public:
  ReadySet() : epoll_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!epoll_) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  }

  int descriptor() const { return epoll_.get(); }
  /// The set forgets a descriptor when its owner closes it.
  void add(int descriptor, std::uint64_t key) { control(EPOLL_CTL_ADD, descriptor, key, EPOLLIN); }
  /// For a descriptor that its owner keeps open.
  void remove(int descriptor) { control(EPOLL_CTL_DEL, descriptor, 0, 0); }
  void watch(int descriptor, std::uint64_t key, bool for_reading, bool for_writing) {
    control(EPOLL_CTL_MOD, descriptor, key, (for_reading ? EPOLLIN : 0U) | (for_writing ? EPOLLOUT : 0U));
  }
  /// The keys of some descriptors that are ready now. Does not wait.
  std::vector<std::uint64_t> ready() const {
    std::array<epoll_event, 128> events{};
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    std::vector<std::uint64_t> keys;
    for (int i = 0; i < count; ++i) {
      // A copy: the structure is packed, so its fields are not aligned.
      const std::uint64_t key = events[static_cast<std::size_t>(i)].data.u64;
      keys.push_back(key);
    }
    return keys;
  }

 private:
  void control(int operation, int descriptor, std::uint64_t key, unsigned events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = key;
    if (::epoll_ctl(epoll_.get(), operation, descriptor, &event) != 0)
      throw std::system_error(errno, std::generic_category(), "epoll_ctl");
  }

  base::FileDescriptor epoll_;
};

}  // namespace shardproof::control::link

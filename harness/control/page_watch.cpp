#include "harness/control/page_watch.hpp"

#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace shardproof::control {

PageWatch::PageWatch(Doorbell& bell) : bell_(bell), event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!event_) throw std::system_error(errno, std::generic_category(), "eventfd");
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { watch(); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

PageWatch::~PageWatch() {
  ends_.store(true);
  bell_.ring();
  thread_.join();
}

void PageWatch::clear() {
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t none_if_clear = ::read(event_.get(), &rings, sizeof rings);
}

void PageWatch::watch() {
  for (std::uint32_t heard = 0; !ends_.load(); heard = bell_.wait_for_ring_after(heard)) {
    const std::uint64_t one = 1;
    // It can only fail when the count is at its limit, and then the descriptor is readable.
    [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof one);
  }
}

}  // namespace shardproof::control

#include "launcher/process/signal_watch.hpp"

#include <sys/signalfd.h>

#include <cerrno>
#include <system_error>

namespace shardproof::launcher {

SignalWatch::SignalWatch() {
  sigset_t watched;
  sigemptyset(&watched);
  // All signals that end a process without being an error of its own, except the timers of profilers.
  for (const int number :
       {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGUSR1, SIGUSR2, SIGALRM, SIGIO, SIGPWR, SIGSTKFLT}) {
    struct sigaction current{};
    sigaction(number, nullptr, &current);
    if (current.sa_handler != SIG_IGN) sigaddset(&watched, number);
  }
  descriptor_ = base::FileDescriptor(signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC));
  if (!descriptor_) throw std::system_error(errno, std::generic_category(), "signalfd");
  sigprocmask(SIG_BLOCK, &watched, &before_);
}

SignalWatch::~SignalWatch() {
  // A signal that the command has not taken must not end the process now, after all its work.
  while (take()) {
  }
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalWatch::take() {
  signalfd_siginfo info{};
  if (::read(descriptor_.get(), &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace shardproof::launcher

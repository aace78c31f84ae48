#include "harness/world/lifeline.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "harness/world/process_end.hpp"

namespace shardproof::world {

namespace {

[[noreturn]] void refuse(std::int64_t launcher) {
  throw std::runtime_error(fmt::format(
      "cannot find the launcher, process {}: it has ended, or this rank runs in another PID namespace", launcher));
}

void watch(base::FileDescriptor launcher) {
  // The thread must not receive signals: they are for the threads that run cases.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([launcher = std::move(launcher)] {
    if (has_ended(launcher, -1)) ::kill(::getpid(), SIGKILL);
  }).detach();
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void tie_life_to(std::int64_t launcher, std::int64_t tracer) {
  // Yama may allow only a parent to trace a process. The launcher's tool that examines a hanging rank is a sibling of
  // the rank, or a relative of its guard, and needs this permission.
  ::prctl(PR_SET_PTRACER, static_cast<unsigned long>(tracer == 0 ? launcher : tracer), 0, 0, 0);
  if (::getppid() == launcher) {
    if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
      throw std::system_error(errno, std::generic_category(), "prctl(PR_SET_PDEATHSIG)");
    // The signal comes only if the launcher ends after the call above.
    if (::getppid() != launcher) refuse(launcher);
    return;
  }
  base::FileDescriptor process = open_process(static_cast<pid_t>(launcher));
  if (!process || has_ended(process, 0)) refuse(launcher);
  watch(std::move(process));
}

}  // namespace shardproof::world

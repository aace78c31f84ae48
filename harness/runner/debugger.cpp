#include "harness/runner/debugger.hpp"

#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "harness/protocol/environment.hpp"

namespace shardproof::runner {

namespace {

/// The kernel reports `TracerPid:  0` for a process without a debugger.
bool is_traced() {
  std::ifstream status("/proc/self/status");
  const std::string field = "TracerPid:";
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field)) return std::atoi(line.c_str() + field.size()) != 0;
  }
  return false;
}

}  // namespace

void wait_for_debugger_if_asked() {
  if (std::getenv(protocol::environment::debug) == nullptr) return;
  // Yama may allow only a parent to trace a process. This call allows any debugger of the user.
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  // The kernel does not notify a process that a debugger attached, so poll.
  while (!is_traced()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::raise(SIGTRAP);
}

}  // namespace shardproof::runner

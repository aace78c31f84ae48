#include "harness/runner/debugger.hpp"

#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "harness/protocol/environment.hpp"

namespace shardproof {

namespace {

/// By the kernel's word: `TracerPid:	0` for nobody.
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
  if (std::getenv(environment::debug) == nullptr) return;
  // Where only a parent may look at a process (Yama), a debugger that a user starts may not; here it is asked for.
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  // Nothing tells a process that it is traced from now on: it looks.
  while (!is_traced()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::raise(SIGTRAP);
}

}  // namespace shardproof

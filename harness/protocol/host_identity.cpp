#include "harness/protocol/host_identity.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <fstream>

#include "harness/protocol/environment.hpp"

namespace shardproof::protocol {

namespace {

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

std::string device_of_shared_memory() {
  struct stat status{};
  if (::stat("/dev/shm", &status) != 0) return {};
  return fmt::format("{}:{}", major(status.st_dev), minor(status.st_dev));
}

}  // namespace

HostIdentity host_identity(const std::function<const char*(const char*)>& get) {
  const char* const node = get("SLURMD_NODENAME");
  return {.name = node != nullptr && *node != '\0' ? std::string(node) : host_name(),
          .boot = boot_id(),
          .memory = device_of_shared_memory()};
}

std::string word_of(const HostIdentity& host) {
  std::string word = fmt::format("{}/{}/{}", host.name, host.boot, host.memory);
  std::ranges::replace(word, ' ', '_');
  return word;
}

}  // namespace shardproof::protocol

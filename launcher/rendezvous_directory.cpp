#include "launcher/rendezvous_directory.hpp"

#include <fmt/format.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>

#include "launcher/launcher.hpp"

namespace shardproof::launcher {
namespace {

/// What the mailboxes and the control page of a world take, generously. Pages that cannot be backed end a rank by SIGBUS: better not begin.
constexpr std::uint64_t bytes_per_rank = std::uint64_t{4} << 20;

std::filesystem::path place_for(int world_size) {
  const std::filesystem::path memory = "/dev/shm";
  if (is_roomy_memory(memory, bytes_per_rank * static_cast<std::uint64_t>(world_size))) return memory;
  std::error_code none;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(none);
  return none ? std::filesystem::path("/tmp") : temporary;
}

}  // namespace

bool is_roomy_memory(const std::filesystem::path& directory, std::uint64_t bytes) {
  struct statfs facts{};
  if (statfs(directory.c_str(), &facts) != 0 || facts.f_type != TMPFS_MAGIC) return false;
  return facts.f_bavail * static_cast<std::uint64_t>(facts.f_bsize) >= bytes && access(directory.c_str(), W_OK | X_OK) == 0;
}

RendezvousDirectory RendezvousDirectory::make(int world_size) {
  std::string name = (place_for(world_size) / "shardproof-XXXXXX").string();
  if (!mkdtemp(name.data())) {
    throw CommandError(infrastructure, fmt::format("cannot make a directory {} for ranks to meet in: {} (TMPDIR names another place)", name,
                                                   std::generic_category().message(errno)));
  }
  return RendezvousDirectory(name);
}

RendezvousDirectory::RendezvousDirectory(RendezvousDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}

RendezvousDirectory::~RendezvousDirectory() {
  std::error_code ignored;  // a rank in uninterruptible sleep may still hold a file of a network file system
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace shardproof::launcher

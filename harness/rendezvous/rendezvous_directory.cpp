#include "harness/rendezvous/rendezvous_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardproof::rendezvous {
namespace {

/// A generous bound of the memory that groups of ranks map, and of the values that they exchange as they join. A page
/// without memory ends a rank by SIGBUS, so such a world must not begin there.
constexpr std::uint64_t bytes_for(int world_size) {
  return (std::uint64_t{32} << 20) + (std::uint64_t{32} << 10) * static_cast<std::uint64_t>(world_size);
}

constexpr std::string_view prefix = "shardproof-";
constexpr std::string_view random_part = "XXXXXX";  // mkdtemp replaces it

std::filesystem::path lock_of(const std::filesystem::path& directory) { return directory / "owner.lock"; }

bool is_abandoned(const std::filesystem::path& directory) {
  std::error_code error;
  const auto made = std::filesystem::last_write_time(lock_of(directory), error);
  if (error || std::filesystem::file_time_type::clock::now() - made < std::chrono::minutes(1)) return false;
  // Any user may put any file there. Only a plain file of this user counts, and a pipe must not block this process.
  const base::FileDescriptor lock(::open(lock_of(directory).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status{};
  if (!lock || ::fstat(lock.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != geteuid())
    return false;
  return ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

/// Its owner was killed before it made the lock, or after it had removed the lock.
bool is_old_and_own(const std::filesystem::path& directory) {
  struct stat status{};
  return ::lstat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
         ::time(nullptr) - status.st_mtime > 60;
}

std::filesystem::path place_for(int world_size) {
  const std::filesystem::path memory = "/dev/shm";
  if (is_roomy_memory(memory, bytes_for(world_size))) return memory;
  std::error_code none;
  const std::filesystem::path temporary = std::filesystem::temp_directory_path(none);
  return none ? std::filesystem::path("/tmp") : temporary;
}

}  // namespace

bool is_roomy_memory(const std::filesystem::path& directory, std::uint64_t bytes) {
  struct statfs facts{};
  if (statfs(directory.c_str(), &facts) != 0 || facts.f_type != TMPFS_MAGIC) return false;
  return facts.f_bavail * static_cast<std::uint64_t>(facts.f_bsize) >= bytes &&
         access(directory.c_str(), W_OK | X_OK) == 0;
}

RendezvousDirectory RendezvousDirectory::make(int world_size) {
  const std::filesystem::path place = place_for(world_size);
  remove_abandoned(place);
  return make_in(place);
}

RendezvousDirectory RendezvousDirectory::make_in(const std::filesystem::path& place) {
  std::string name = (place / prefix).string().append(random_part);
  if (!mkdtemp(name.data())) {
    throw std::system_error(
        errno, std::generic_category(),
        fmt::format("cannot make a directory {} for ranks to meet in (set TMPDIR to use another place)", name));
  }
  return RendezvousDirectory(name);
}

void remove_abandoned(const std::filesystem::path& place) {
  std::error_code ignored;  // another owner may be removing the same directory
  for (const auto& entry : std::filesystem::directory_iterator(place, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix) || name.size() != prefix.size() + random_part.size()) continue;
    if (is_abandoned(entry.path())) {
      std::filesystem::remove_all(entry.path(), ignored);
    } else if (is_old_and_own(entry.path())) {
      ::rmdir(entry.path().c_str());  // only if it is empty
    }
  }
}

RendezvousDirectory::RendezvousDirectory(std::filesystem::path path)
    : path_(std::move(path)), lock_(::open(lock_of(path_).c_str(), O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
  // The directory works without a lock, too. It only stays if this process is killed.
  if (lock_) ::flock(lock_.get(), LOCK_EX | LOCK_NB);
}

RendezvousDirectory::RendezvousDirectory(RendezvousDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

RendezvousDirectory::~RendezvousDirectory() {
  std::error_code ignored;  // a rank in uninterruptible sleep may still hold a file of a network file system
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace shardproof::rendezvous

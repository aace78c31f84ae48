// RendezvousDirectory is the private directory in which the ranks of a world meet. It is on a memory file system where
// one has room. It is removed with this object.
#pragma once

#include <cstdint>
#include <filesystem>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::rendezvous {

class RendezvousDirectory {
 public:
  /// Makes a directory for a world of that size. Throws std::system_error when no place is writable.
  static RendezvousDirectory make(int world_size);
  /// The same in a directory that the caller chooses.
  static RendezvousDirectory make_in(const std::filesystem::path& place);

  RendezvousDirectory(RendezvousDirectory&& other) noexcept;
  RendezvousDirectory& operator=(RendezvousDirectory&&) = delete;
  ~RendezvousDirectory();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit RendezvousDirectory(std::filesystem::path path);

  std::filesystem::path path_;
  base::FileDescriptor
      lock_;  ///< held as long as the directory is in use; distinguishes a live owner from a killed one
};

/// Removes directories that killed owners left in `place`; nothing else would free their memory. It skips a directory
/// with a held lock, and one with files and no lock. It also skips a directory younger than a minute, whose owner may
/// be about to take the lock.
void remove_abandoned(const std::filesystem::path& place);

/// True when `directory` is a memory file system that has `bytes` left.
bool is_roomy_memory(const std::filesystem::path& directory, std::uint64_t bytes);

}  // namespace shardproof::rendezvous

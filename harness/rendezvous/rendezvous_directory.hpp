// The private directory in which the ranks of a world meet: on a memory file system where one has room, and gone with its handle.
#pragma once

#include <cstdint>
#include <filesystem>

#include "harness/base/file_descriptor.hpp"

namespace shardproof {

class RendezvousDirectory {
 public:
  /// For a world of that size. Throws std::system_error when no place can be written to.
  static RendezvousDirectory make(int world_size);

  RendezvousDirectory(RendezvousDirectory&& other) noexcept;
  RendezvousDirectory& operator=(RendezvousDirectory&&) = delete;
  ~RendezvousDirectory();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit RendezvousDirectory(std::filesystem::path path);

  std::filesystem::path path_;
  FileDescriptor lock_;  ///< held as long as the directory is in use: tells a living owner from a killed one
};

/// Removes from `place` what owners left there that were killed: memory that nobody else would give back. A directory without a lock,
/// with one that is held, or younger than a minute (its owner may be about to take the lock) is left alone.
void remove_abandoned(const std::filesystem::path& place);

/// True when `directory` is a memory file system that has `bytes` left.
bool is_roomy_memory(const std::filesystem::path& directory, std::uint64_t bytes);

}  // namespace shardproof

// The private directory in which the ranks of one world meet: on a memory file system where there is one with room, and gone with its handle.
#pragma once

#include <cstdint>
#include <filesystem>

namespace shardproof::launcher {

class RendezvousDirectory {
 public:
  /// For a world of that size. Throws CommandError (infrastructure) when no place can be written to.
  static RendezvousDirectory make(int world_size);

  RendezvousDirectory(RendezvousDirectory&& other) noexcept;
  RendezvousDirectory& operator=(RendezvousDirectory&&) = delete;
  ~RendezvousDirectory();

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit RendezvousDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

/// True when `directory` is a memory file system that has `bytes` left.
bool is_roomy_memory(const std::filesystem::path& directory, std::uint64_t bytes);

}  // namespace shardproof::launcher

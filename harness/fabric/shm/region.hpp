// Region is memory that all ranks of a group map: files in the world's own directory for processes, plain memory for
// threads of one process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>

namespace shardproof::fabric::shm {

class Region {
 public:
  virtual ~Region() = default;
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// Call it after all ranks have attached. It removes the name, so no file remains, however the ranks end.
  virtual void drop_name() {}

 protected:
  Region(std::byte* data, std::size_t bytes) : data_(data), bytes_(bytes) {}

 private:
  std::byte* data_;
  std::size_t bytes_;
};

/// The source of the regions of a world's groups.
class SharedMemory {
 public:
  virtual ~SharedMemory() = default;

  struct Named {
    std::shared_ptr<Region> region;
    std::string name;  ///< at most 100 bytes
  };
  /// The bytes are zero. Throws std::system_error, which names the resource that ran out.
  virtual Named create(std::size_t bytes) = 0;
  /// Attaches a region that another rank of this world has created and still holds.
  virtual std::shared_ptr<Region> attach(const std::string& name, std::size_t bytes) = 0;
};

std::unique_ptr<SharedMemory> make_file_memory(std::filesystem::path directory, int rank);
/// All ranks of the world share the result.
std::unique_ptr<SharedMemory> make_thread_memory();

}  // namespace shardproof::fabric::shm

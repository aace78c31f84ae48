#include "harness/fabric/shm/region.hpp"

#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "harness/base/file_descriptor.hpp"
#include "harness/base/no_room.hpp"
#include "harness/base/shared_memory.hpp"

namespace shardproof::fabric::shm {

using base::FileDescriptor;

namespace {

[[noreturn]] void fail(int error, const std::string& what) { base::fail_with(error, "shm fabric: " + what); }

std::byte* map(const FileDescriptor& descriptor, std::size_t bytes, std::string_view name) {
  return base::map_shared(descriptor.get(), bytes, fmt::format("shm fabric: {}", name));
}

class MappedRegion final : public Region {
 public:
  MappedRegion(std::byte* data, std::size_t bytes) : Region(data, bytes) {}
  ~MappedRegion() override {
    ::munmap(data(), bytes());
    drop_name();
  }
  void drop_name() override {
    if (!file_.empty()) ::unlink(std::exchange(file_, {}).c_str());
  }
  void owns(std::filesystem::path file) { file_ = std::move(file); }

 private:
  std::filesystem::path file_;  ///< the file that this process made
};

class FileMemory final : public SharedMemory {
 public:
  FileMemory(std::filesystem::path directory, int rank) : directory_(std::move(directory)), rank_(rank) {}

  Named create(std::size_t bytes) override {
    for (std::uint64_t counter = 0;; ++counter) {
      const std::string name = fmt::format("fabric-{}-{}", rank_, counter);
      const auto path = directory_ / name;
      const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (!file) {
        if (errno == EEXIST) continue;
        fail(errno, fmt::format("create {}", path.native()));
      }
      try {
        if (const int error = base::take_room(file.get(), bytes); error != 0) {
          fail(error,
               fmt::format("{} bytes for {} (is it full? enlarge the container's /dev/shm, or point TMPDIR elsewhere)",
                           bytes, path.native()));
        }
        auto region = std::make_shared<MappedRegion>(map(file, bytes, path.native()), bytes);
        region->owns(path);
        return {std::move(region), name};
      } catch (...) {
        ::unlink(path.c_str());
        throw;
      }
    }
  }

  std::shared_ptr<Region> attach(const std::string& name, std::size_t bytes) override {
    const auto path = directory_ / name;
    const FileDescriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!file) fail(errno, fmt::format("open {}", path.native()));
    struct stat status{};
    if (::fstat(file.get(), &status) != 0) fail(errno, fmt::format("stat {}", path.native()));
    if (static_cast<std::size_t>(status.st_size) != bytes) {
      throw std::runtime_error(
          fmt::format("shm fabric: {} has {} bytes, not the {} of this group", path.native(), status.st_size, bytes));
    }
    return std::make_shared<MappedRegion>(map(file, bytes, path.native()), bytes);
  }

 private:
  std::filesystem::path directory_;
  int rank_;
};

class ThreadMemory final : public SharedMemory {
 public:
  Named create(std::size_t bytes) override {
    auto region = std::make_shared<MappedRegion>(map(FileDescriptor(), bytes, "memory of threads"), bytes);
    const std::lock_guard lock(mutex_);
    std::string name = fmt::format("region-{}", regions_.size());
    regions_.emplace(name, region);
    return {std::move(region), std::move(name)};
  }

  std::shared_ptr<Region> attach(const std::string& name, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    const auto found = regions_.find(name);
    auto region = found == regions_.end() ? nullptr : found->second.lock();
    if (!region || region->bytes() != bytes)
      throw std::runtime_error(fmt::format("shm fabric: no region \"{}\" of {} bytes", name, bytes));
    return region;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<Region>> regions_;
};

}  // namespace

std::unique_ptr<SharedMemory> make_file_memory(std::filesystem::path directory, int rank) {
  return std::make_unique<FileMemory>(std::move(directory), rank);
}

std::unique_ptr<SharedMemory> make_thread_memory() { return std::make_unique<ThreadMemory>(); }

}  // namespace shardproof::fabric::shm

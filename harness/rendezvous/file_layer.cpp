#include "harness/rendezvous/file_layer.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "harness/base/file_descriptor.hpp"
#include "harness/base/no_room.hpp"

namespace shardproof::rendezvous {

namespace {

[[noreturn]] void fail(const char* operation, const std::filesystem::path& file) {
  base::fail_with(errno, fmt::format("file store: {} {}", operation, file.native()));
}

/// A file with only one writer, which the destructor removes.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::filesystem::path& directory, int rank) {
    for (std::uint64_t counter = 0;; ++counter) {
      path_ = directory / fmt::format("{}-{}-{}", ::getpid(), rank, counter);
      file_ = base::FileDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
      if (file_) return;
      if (errno != EEXIST) fail("create", path_);
    }
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  /// Writes and closes the file. Only close reports on a network file system whether all bytes arrived. There is no
  /// fsync, because the store does not outlive the machine.
  void write(std::string_view content) {
    while (!content.empty()) {
      const ssize_t written = ::write(file_.get(), content.data(), content.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail("write", path_);
      content.remove_prefix(static_cast<std::size_t>(written));
    }
    if (file_.close() != 0) fail("close", path_);
  }

  /// Returns false when another file has this name. A server's answer may get lost, and the repeated call then fails
  /// although the link exists. Only the number of links shows that.
  bool link_as(const std::filesystem::path& name) const {
    if (::link(path_.c_str(), name.c_str()) == 0) return true;
    const int error = errno;
    struct stat status{};
    if (::stat(path_.c_str(), &status) == 0 && status.st_nlink == 2) return true;
    if (error == EEXIST) return false;
    errno = error;
    fail(error == EPERM ? "link (does this file system have hard links?)" : "link", name);
  }

 private:
  std::filesystem::path path_;
  base::FileDescriptor file_;
};

class SystemFiles final : public FileLayer {
 public:
  void make_directory(const std::filesystem::path& directory) const override {
    std::filesystem::create_directories(directory);
  }

  bool publish(const std::filesystem::path& unfinished, int rank, std::string_view content,
               const std::filesystem::path& file) const override {
    TemporaryFile temporary(unfinished, rank);
    temporary.write(content);
    return temporary.link_as(file);
  }

  std::optional<std::string> read(const std::filesystem::path& file) const override {
    const base::FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!descriptor) {
      if (errno == ENOENT || errno == ESTALE) return std::nullopt;
      fail("open", file);
    }
    std::string content;
    char part[4096];
    while (true) {
      const ssize_t got = ::read(descriptor.get(), part, sizeof part);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == ESTALE) return std::nullopt;
      if (got < 0) fail("read", file);
      if (got == 0) return content;
      content.append(part, static_cast<std::size_t>(got));
    }
  }

  void refresh(const std::filesystem::path& directory) const override {
    // NFS asks the server for the state of a directory that is opened. If it has changed, names that did not exist are
    // looked up again.
    const base::FileDescriptor opened(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened) fail("open", directory);
  }
};

}  // namespace

std::shared_ptr<const FileLayer> system_files() { return std::make_shared<SystemFiles>(); }

}  // namespace shardproof::rendezvous

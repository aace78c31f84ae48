#include "harness/rendezvous/file_store.hpp"

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "harness/base/file_descriptor.hpp"
#include "harness/rendezvous/directory_watch.hpp"
#include "harness/rendezvous/value_file.hpp"

namespace shardproof::rendezvous {

namespace {

/// Next to the directory of values, so that only finished values wake the watchers of that directory.
constexpr const char* unfinished = "unfinished";
constexpr const char* values = "values";
constexpr const char* poison_file = "poison";  // not the name of a key: those begin with `key.`

/// A wait for more keys than this only looks at intervals. With inotify, every new value would wake every waiting rank.
constexpr std::size_t most_notified_keys = 16;

[[noreturn]] void fail(const char* operation, const std::filesystem::path& file) {
  const int error = errno;
  throw std::system_error(error, std::generic_category(), fmt::format("file store: {} {}", operation, file.native()));
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

/// Returns nullopt when there is no such file.
std::optional<Value> read_value(const std::filesystem::path& file, std::string_view nonce) {
  const base::FileDescriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor) {
    if (errno == ENOENT) return std::nullopt;
    fail("open", file);
  }
  std::string content;
  char part[4096];
  while (true) {
    const ssize_t got = ::read(descriptor.get(), part, sizeof part);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", file);
    if (got == 0) break;
    content.append(part, static_cast<std::size_t>(got));
  }
  try {
    return decode(content, nonce);
  } catch (const std::runtime_error& wrong) {
    throw std::runtime_error(fmt::format("file store: {}: {}", file.native(), wrong.what()));
  }
}

}  // namespace

StorePoisoned::StorePoisoned(int rank, const std::string& reason)
    : std::runtime_error(fmt::format("file store poisoned by rank {}: {}", rank, reason)), rank_(rank) {}

FileStore::FileStore(std::filesystem::path directory, std::string nonce, int rank)
    : directory_(std::move(directory)), nonce_(std::move(nonce)), rank_(rank) {
  std::filesystem::create_directories(directory_ / unfinished);
  std::filesystem::create_directories(directory_ / values);
}

FileStore FileStore::with_prefix(std::string_view prefix) const {
  FileStore view = *this;
  view.prefix_ += prefix;
  return view;
}

std::filesystem::path FileStore::file_of(std::string_view key) const {
  const std::string name = "key." + percent_encode(prefix_) + percent_encode(key);
  if (name.size() > 255) {
    throw std::invalid_argument(
        fmt::format("file store: key \"{}{}\" needs a file name of {} bytes; 255 fit", prefix_, key, name.size()));
  }
  return directory_ / values / name;
}

bool FileStore::write_once(const std::filesystem::path& file, std::string_view value) const {
  TemporaryFile temporary(directory_ / unfinished, rank_);
  temporary.write(encode({rank_, std::string(value)}, nonce_));
  return temporary.link_as(file);
}

void FileStore::put(std::string_view key, std::string_view value) {
  const auto file = file_of(key);
  if (write_once(file, value)) return;
  const auto first = read_value(file, nonce_);
  throw KeyExists(fmt::format("file store: rank {} writes key \"{}{}\", which {} has written already", rank_, prefix_,
                              key, first ? fmt::format("rank {}", first->writer) : "somebody"));
}

std::optional<std::string> FileStore::get(std::string_view key) const {
  auto value = read_value(file_of(key), nonce_);
  if (!value) return std::nullopt;
  return std::move(value->bytes);
}

std::vector<std::string> FileStore::wait(std::span<const std::string> keys, control::Deadline deadline) const {
  DirectoryWatch watch(directory_ / values, keys.size() <= most_notified_keys);
  std::vector<std::string> found;
  while (true) {
    const bool last_look = std::chrono::steady_clock::now() >= deadline;
    throw_if_poisoned();
    const std::size_t before = found.size();
    while (found.size() < keys.size()) {
      auto value = get(keys[found.size()]);
      if (!value) break;
      found.push_back(std::move(*value));
    }
    if (found.size() == keys.size()) return found;
    if (last_look) break;
    if (found.size() > before) watch.reset();
    watch.wait(deadline);
  }

  std::size_t missing = 0;
  std::string names;
  for (std::size_t i = found.size(); i < keys.size(); ++i) {
    if (i > found.size() && get(keys[i])) continue;
    if (++missing <= 8) fmt::format_to(std::back_inserter(names), " \"{}{}\"", prefix_, keys[i]);
  }
  if (missing > 8) fmt::format_to(std::back_inserter(names), " and {} more", missing - 8);
  throw control::DeadlineExceeded(
      fmt::format("rank {}: file store {}: no rank wrote{} before the deadline", rank_, directory_.native(), names));
}

std::string FileStore::wait(std::string_view key, control::Deadline deadline) const {
  const std::string name(key);
  return std::move(wait(std::span(&name, 1), deadline).front());
}

void FileStore::poison(std::string_view reason) {
  // A second reason finds the file in place, and the first reason stays.
  write_once(directory_ / values / poison_file, reason);
}

void FileStore::throw_if_poisoned() const {
  if (const auto poison = read_value(directory_ / values / poison_file, nonce_))
    throw StorePoisoned(poison->writer, poison->bytes);
}

}  // namespace shardproof::rendezvous

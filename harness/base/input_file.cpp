#include "harness/base/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <ios>
#include <limits>
#include <streambuf>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::base {
namespace {

std::string last_error() { return std::generic_category().message(errno); }

/// Reads from a non-blocking descriptor. While it waits for more bytes of a pipe, no signal is blocked.
class DescriptorBuffer : public std::streambuf {
 public:
  explicit DescriptorBuffer(FileDescriptor file) : file_(std::move(file)) {}

  /// Returns false at the end of the pipe.
  bool has_writer_or_text() {
    const ssize_t got = take();
    return got > 0 || (got < 0 && is_to_wait());
  }

 protected:
  int_type underflow() override {
    for (;;) {
      if (gptr() < egptr()) return traits_type::to_int_type(*gptr());
      const ssize_t got = take();
      if (got > 0) continue;
      if (got == 0) return traits_type::eof();
      // The stream that calls this function then is bad.
      if (!is_to_wait()) throw std::ios_base::failure(last_error());
      sigset_t nothing;
      sigemptyset(&nothing);
      pollfd more{.fd = file_.get(), .events = POLLIN, .revents = 0};
      ::ppoll(&more, 1, nullptr, &nothing);
    }
  }

 private:
  static bool is_to_wait() { return errno == EAGAIN || errno == EINTR; }

  ssize_t take() {
    const ssize_t got = ::read(file_.get(), text_.data(), text_.size());
    if (got > 0) setg(text_.data(), text_.data(), text_.data() + got);
    return got;
  }

  FileDescriptor file_;
  std::array<char, 65536> text_{};
};

class DescriptorStream : public std::istream {
 public:
  explicit DescriptorStream(std::unique_ptr<DescriptorBuffer> buffer)
      : std::istream(buffer.get()), buffer_(std::move(buffer)) {}

 private:
  std::unique_ptr<DescriptorBuffer> buffer_;
};

std::unique_ptr<std::istream> open_pipe(const std::filesystem::path& file) {
  FileDescriptor pipe(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!pipe) throw UnreadableFile(file, last_error());
  auto buffer = std::make_unique<DescriptorBuffer>(std::move(pipe));
  if (!buffer->has_writer_or_text()) throw UnreadableFile(file, "the pipe is empty and has no writer");
  return std::make_unique<DescriptorStream>(std::move(buffer));
}

std::string whole_text(std::istream& in, const std::filesystem::path& file,
                       std::size_t most_bytes = std::numeric_limits<std::size_t>::max()) {
  std::string text;
  std::array<char, 65536> buffer{};
  while (in) {
    in.read(buffer.data(), buffer.size());
    text.append(buffer.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > most_bytes) throw UnreadableFile(file, fmt::format("it has more than {} bytes", most_bytes));
  }
  if (in.bad()) throw UnreadableFile(file, last_error());
  return text;
}

/// The words for a thing that is in the place of a regular file or a folder.
std::string_view kind_of(mode_t mode) {
  if (S_ISLNK(mode)) return "a symbolic link, and shardproof follows no link in a run directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISREG(mode) ? "a file" : "a device";
}

/// Opens `name` in the folder, if it is of this kind. A device is never opened: that alone may have an effect.
FileDescriptor open_in(const FileDescriptor& folder, const std::filesystem::path& name, mode_t kind,
                       const std::filesystem::path& whole) {
  struct stat status{};
  if (::fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    throw UnreadableFile(whole, last_error());
  const auto refuse = [&] {
    throw UnreadableFile(whole,
                         fmt::format("{} is {}", S_ISDIR(kind) ? fmt::format("its folder {}", name.string()) : "it",
                                     kind_of(status.st_mode)));
  };
  if ((status.st_mode & S_IFMT) != kind) refuse();
  const int as_kind = S_ISDIR(kind) ? O_DIRECTORY : 0;
  FileDescriptor opened(
      ::openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | as_kind));
  // Another process may have replaced it in between.
  if (!opened || ::fstat(opened.get(), &status) != 0) throw UnreadableFile(whole, last_error());
  if ((status.st_mode & S_IFMT) != kind) refuse();
  return opened;
}

}  // namespace

UnreadableFile::UnreadableFile(const std::filesystem::path& file, const std::string& why)
    : std::runtime_error(fmt::format("cannot read {}: {}", std::filesystem::absolute(file).string(), why)), why_(why) {}

std::unique_ptr<std::istream> open_input(const std::filesystem::path& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0) throw UnreadableFile(file, last_error());
  if (S_ISFIFO(status.st_mode)) return open_pipe(file);
  if (S_ISDIR(status.st_mode)) throw UnreadableFile(file, "it is a directory");
  if (!S_ISREG(status.st_mode)) throw UnreadableFile(file, "it is neither a file nor a pipe");
  errno = 0;
  auto in = std::make_unique<std::ifstream>(file, std::ios::binary);
  if (!*in) throw UnreadableFile(file, last_error());
  return in;
}

std::string read_input(const std::filesystem::path& file) { return whole_text(*open_input(file), file); }

FileDescriptor open_evidence_folder(const std::filesystem::path& file, int folders) {
  const std::filesystem::path whole = std::filesystem::absolute(file);
  std::vector<std::filesystem::path> inside;  // the innermost first
  std::filesystem::path root = whole.parent_path();
  for (; folders > 0; --folders, root = root.parent_path()) inside.push_back(root.filename());
  FileDescriptor folder(::open(root.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) throw UnreadableFile(file, last_error());
  for (; !inside.empty(); inside.pop_back()) folder = open_in(folder, inside.back(), S_IFDIR, file);
  return folder;
}

FileDescriptor open_evidence_file(const std::filesystem::path& file, int folders) {
  return open_in(open_evidence_folder(file, folders), file.filename(), S_IFREG, file);
}

std::unique_ptr<std::istream> open_evidence(const std::filesystem::path& file, int folders) {
  return std::make_unique<DescriptorStream>(std::make_unique<DescriptorBuffer>(open_evidence_file(file, folders)));
}

std::string read_evidence(const std::filesystem::path& file, int folders, std::size_t most_bytes) {
  return whole_text(*open_evidence(file, folders), file, most_bytes);
}

bool is_there(const std::filesystem::path& file) {
  std::error_code unknown;
  return std::filesystem::exists(std::filesystem::symlink_status(file, unknown));
}

}  // namespace shardproof::base

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
#include <sstream>
#include <streambuf>
#include <system_error>
#include <utility>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::base {
namespace {

std::string last_error() { return std::generic_category().message(errno); }

/// Reads from a non-blocking descriptor. While it waits for more bytes, no signal is blocked.
class PipeBuffer : public std::streambuf {
 public:
  explicit PipeBuffer(FileDescriptor pipe) : pipe_(std::move(pipe)) {}

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
      if (got == 0 || !is_to_wait()) return traits_type::eof();
      sigset_t nothing;
      sigemptyset(&nothing);
      pollfd more{.fd = pipe_.get(), .events = POLLIN, .revents = 0};
      ::ppoll(&more, 1, nullptr, &nothing);
    }
  }

 private:
  static bool is_to_wait() { return errno == EAGAIN || errno == EINTR; }

  ssize_t take() {
    const ssize_t got = ::read(pipe_.get(), text_.data(), text_.size());
    if (got > 0) setg(text_.data(), text_.data(), text_.data() + got);
    return got;
  }

  FileDescriptor pipe_;
  std::array<char, 65536> text_{};
};

class PipeStream : public std::istream {
 public:
  explicit PipeStream(std::unique_ptr<PipeBuffer> buffer) : std::istream(buffer.get()), buffer_(std::move(buffer)) {}

 private:
  std::unique_ptr<PipeBuffer> buffer_;
};

std::unique_ptr<std::istream> open_pipe(const std::filesystem::path& file) {
  FileDescriptor pipe(::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (!pipe) throw UnreadableFile(file, last_error());
  auto buffer = std::make_unique<PipeBuffer>(std::move(pipe));
  if (!buffer->has_writer_or_text()) throw UnreadableFile(file, "the pipe is empty and has no writer");
  return std::make_unique<PipeStream>(std::move(buffer));
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

std::string read_input(const std::filesystem::path& file) {
  const std::unique_ptr<std::istream> in = open_input(file);
  std::ostringstream text;
  // For an empty file the target stream fails, and `in` does not.
  text << in->rdbuf();
  if (in->bad()) throw UnreadableFile(file, last_error());
  return std::move(text).str();
}

}  // namespace shardproof::base

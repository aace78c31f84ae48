#include "harness/runner/case_output.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "harness/base/file_descriptor.hpp"

namespace shardproof::runner {

using protocol::WorldDirectory;

namespace {

constexpr std::array streams{STDOUT_FILENO, STDERR_FILENO};

bool is_same_file(const struct stat& a, const struct stat& b) { return a.st_dev == b.st_dev && a.st_ino == b.st_ino; }

/// -1: the stream is not a file.
std::int64_t length(int stream) {
  struct stat status{};
  return ::fstat(stream, &status) == 0 && S_ISREG(status.st_mode) ? status.st_size : -1;
}

/// The end of the log from `begin` on, from the beginning of a line. Empty if the stream is not this log.
std::string end_of(const std::filesystem::path& log, int stream, std::int64_t begin) {
  const base::FileDescriptor file(::open(log.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat of_file{}, of_stream{};
  if (!file || ::fstat(file.get(), &of_file) != 0 || ::fstat(stream, &of_stream) != 0) return {};
  if (!is_same_file(of_file, of_stream) || of_file.st_size <= begin) return {};
  const std::int64_t from = std::max<std::int64_t>(begin, of_file.st_size - std::int64_t{CaseOutput::most_bytes});
  std::string text(static_cast<std::size_t>(of_file.st_size - from), '\0');
  const ssize_t size = ::pread(file.get(), text.data(), text.size(), from);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  if (const std::size_t line = text.find('\n'); from > begin && line != std::string::npos) text.erase(0, line + 1);
  return text;
}

void write_new(const std::filesystem::path& path, const std::string& text) {
  const base::FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  // Without space, the report does not show it.
  if (file) [[maybe_unused]]
    const ssize_t written = ::write(file.get(), text.data(), text.size());
}

}  // namespace

CaseOutput::CaseOutput(const WorldDirectory& directory, int rank) : directory_(directory), rank_(rank) {
  std::fflush(stdout);
  std::ranges::transform(streams, begins_.begin(), length);
}

void CaseOutput::keep(const std::string& id) const {
  std::fflush(stdout);
  const std::array logs{directory_.standard_output(rank_), directory_.standard_error(rank_)};
  const std::array kept{directory_.case_output(id, rank_), directory_.case_errors(id, rank_)};
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (begins_[i] < 0) continue;
    if (const std::string text = end_of(logs[i], streams[i], begins_[i]); !text.empty()) write_new(kept[i], text);
  }
}

}  // namespace shardproof::runner

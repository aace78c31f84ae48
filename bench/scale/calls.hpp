// Counts of file system calls, by kind. The library count_calls counts the calls of real ranks, and CountedFiles counts
// the calls of simulated ranks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace shardproof::bench {

enum class FileCall : std::uint8_t {
  stat,
  make_directory,
  create,
  open,
  missed_open,  ///< no file has this name
  read,
  write,
  link,
  unlink,
  rename,
  list,  ///< reads the names of a directory
  watch,  ///< inotify
};
inline constexpr std::size_t file_call_kinds = 12;
inline constexpr std::array<std::string_view, file_call_kinds> file_call_names{
    "stat",   "mkdir",  "create", "open",   "open of a missing file", "read", "write", "link",
    "unlink", "rename", "list",   "inotify"};

class FileCalls {
 public:
  std::uint64_t& operator[](FileCall kind) { return counts_[static_cast<std::size_t>(kind)]; }
  std::uint64_t operator[](FileCall kind) const { return counts_[static_cast<std::size_t>(kind)]; }
  /// Calls that need the file server. A client has the answers to `read` after it has opened the small file, and sends
  /// the bytes of `write` when the file is closed.
  std::uint64_t metadata() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts_) sum += count;
    return sum - (*this)[FileCall::read] - (*this)[FileCall::write];
  }
  friend bool operator==(const FileCalls&, const FileCalls&) = default;

 private:
  std::array<std::uint64_t, file_call_kinds> counts_{};
};

/// A file that all counted processes map.
struct CountedCalls {
  enum Place : std::uint8_t { store, run, places };
  std::array<std::array<std::atomic<std::uint64_t>, file_call_kinds>, places> counts;
  /// Bytes of shared memory that were reserved, outside of these places.
  std::atomic<std::uint64_t> reserved;

  FileCalls at(Place place) const {
    FileCalls calls;
    for (std::size_t kind = 0; kind < file_call_kinds; ++kind)
      calls[static_cast<FileCall>(kind)] = counts[place][kind].load();
    return calls;
  }
};

/// Environment variables of a counted process: the file of CountedCalls, and the directory of the run.
inline constexpr char counts_variable[] = "SHARDPROOF_BENCH_COUNTS", run_variable[] = "SHARDPROOF_BENCH_RUN";

}  // namespace shardproof::bench

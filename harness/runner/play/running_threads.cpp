#include "harness/runner/play/running_threads.hpp"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardproof::runner {

namespace {

/// A thread, parsed from a line of proc_pid_stat(5). A name may contain any characters, brackets too.
struct Thread {
  std::string name;
  bool is_ending = true;

  explicit Thread(std::string_view line) {
    constexpr std::uint64_t exiting = 0x4;  // PF_EXITING, which the kernel sets before it wakes the joining thread
    const auto begin = line.find('('), end = line.rfind(')');
    if (begin == std::string_view::npos || end == std::string_view::npos) return;  // it ended during the read
    name = line.substr(begin + 1, end - begin - 1);
    std::istringstream rest{std::string(line.substr(end + 1))};
    char state = 0;
    std::array<std::int64_t, 5> skipped{};
    std::uint64_t flags = 0;
    rest >> state;
    for (std::int64_t& field : skipped) rest >> field;
    rest >> flags;
    is_ending = !rest || (flags & exiting) != 0;
  }
};

}  // namespace

std::vector<std::string> other_threads() {
  std::vector<std::string> names;
  const std::string self = std::to_string(::gettid());
  std::error_code unseen;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", unseen)) {
    if (entry.path().filename() == self) continue;
    std::string line;
    std::getline(std::ifstream(entry.path() / "stat"), line);
    if (Thread thread(line); !thread.is_ending) names.push_back(std::move(thread.name));
  }
  return names;
}

}  // namespace shardproof::runner

#include "harness/world/running_threads.hpp"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <memory>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

namespace shardproof::world {

namespace {

/// A thread, parsed from its proc_pid_stat(5). A name may contain any characters, brackets and line ends too.
struct Thread {
  std::string name;
  char state = 0;  ///< `S`: it sleeps. 0: it has ended
  bool is_ending = true;

  explicit Thread(std::string_view stat) {
    constexpr std::uint64_t exiting = 0x4;  // PF_EXITING, which the kernel sets before it wakes the joining thread
    const auto begin = stat.find('('), end = stat.rfind(')');
    if (begin == std::string_view::npos || end == std::string_view::npos) return;  // it ended during the read
    name = stat.substr(begin + 1, end - begin - 1);
    std::istringstream rest{std::string(stat.substr(end + 1))};
    std::array<std::int64_t, 5> skipped{};
    std::uint64_t flags = 0;
    rest >> state;
    for (std::int64_t& field : skipped) rest >> field;
    rest >> flags;
    is_ending = !rest || (flags & exiting) != 0;
  }
};

/// A file of /proc/self/task/ID. Empty if the thread has ended.
std::string text_of(pid_t thread, std::string_view file) {
  std::ostringstream text;
  text << std::ifstream(fmt::format("/proc/self/task/{}/{}", thread, file)).rdbuf();
  return std::move(text).str();
}

Thread look_at(pid_t thread) { return Thread(text_of(thread, "stat")); }

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

/// In the system's order.
std::vector<pid_t> listed_threads() {
  std::vector<pid_t> ids;
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir("/proc/self/task"));
  if (!directory) return ids;
  while (const dirent* const entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    pid_t id = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), id).ec == std::errc()) ids.push_back(id);
  }
  return ids;
}

}  // namespace

std::vector<std::string> other_threads() {
  std::vector<std::string> names;
  for (const pid_t id : listed_threads()) {
    if (id == ::gettid()) continue;
    if (Thread thread = look_at(id); !thread.is_ending) names.push_back(std::move(thread.name));
  }
  return names;
}

std::size_t thread_count() {
  struct stat status{};
  // The kernel counts a link for each thread, besides the two of any directory.
  return ::stat("/proc/self/task", &status) == 0 && status.st_nlink > 2 ? status.st_nlink - 2 : listed_threads().size();
}

std::vector<pid_t> thread_ids() {
  std::vector<pid_t> ids = listed_threads();
  std::ranges::sort(ids);
  return ids;
}

bool is_ending(pid_t thread) { return look_at(thread).is_ending; }

std::optional<std::uint64_t> turns_if_asleep(pid_t thread) {
  std::istringstream times(text_of(thread, "schedstat"));
  std::uint64_t on_core = 0, waiting = 0, turns = 0;
  times >> on_core >> waiting >> turns;
  return look_at(thread).state == 'S' ? std::optional(turns) : std::nullopt;
}

std::string describe_thread(pid_t thread) {
  const std::string place = text_of(thread, "wchan");
  return fmt::format("thread {} \"{}\"{}", thread, look_at(thread).name,
                     place.empty() || place == "0" ? "" : fmt::format(" (in {})", place));
}

}  // namespace shardproof::world

#include "launcher/process/free_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "launcher/files/small_file.hpp"

namespace shardproof::launcher {

using control::Deadline;
using std::chrono::nanoseconds;

namespace {

/// Takes the number and the space at the beginning of `text`.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  text.remove_prefix(std::min<std::size_t>(text.size(), 1));
  return number;
}

}  // namespace

std::optional<ThreadLook> read_look(pid_t thread, std::string_view stat, std::string_view schedstat) {
  const std::size_t name_end = stat.rfind(") ");  // the name may have any bytes
  if (name_end == std::string_view::npos || name_end + 2 >= stat.size()) return std::nullopt;
  const auto ran = take_number(schedstat);
  const auto waited = ran ? take_number(schedstat) : std::nullopt;
  if (!waited) return std::nullopt;
  return ThreadLook{
      .thread = thread, .state = stat[name_end + 2], .ran = nanoseconds(*ran), .waited = nanoseconds(*waited)};
}

std::vector<ThreadLook> look_at_threads(pid_t process) {
  std::vector<ThreadLook> looks;
  // This process has run. A system without these numbers has no file, or says 0.
  if (const std::string own = first_line("/proc/self/schedstat"); own.empty() || own.starts_with("0 ")) return looks;
  std::error_code ended;
  const std::filesystem::path tasks = fmt::format("/proc/{}/task", process);
  for (std::filesystem::directory_iterator task(tasks, ended), end; !ended && task != end; task.increment(ended)) {
    const std::string name = task->path().filename().string();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    if (const auto look = read_look(thread, whole_text(task->path() / "stat"), whole_text(task->path() / "schedstat")))
      looks.push_back(*look);
  }
  return looks;
}

void FreeTime::look(const std::vector<ThreadLook>& threads, Deadline now) {
  const bool is_first = !last_look_;
  const nanoseconds passed = is_first ? nanoseconds(0) : now - *last_look_;
  last_look_ = now;
  std::map<pid_t, Thread> known;
  for (const ThreadLook& look : threads) {
    const auto found = threads_.find(look.thread);
    if (found == threads_.end()) {
      if (is_first) known.emplace(look.thread, Thread{.last = look});
      continue;
    }
    Thread thread = found->second;
    // The system counts a wait for a processor only when it is over. So a thread that may wait now has only run.
    const nanoseconds ran = look.ran - thread.last.ran, waited = look.waited - thread.last.waited;
    thread.free += look.state == 'R' ? ran : std::max(ran, passed - waited);
    thread.last = look;
    known.emplace(look.thread, thread);
  }
  threads_ = std::move(known);
}

std::optional<nanoseconds> FreeTime::least() const {
  const auto least = std::ranges::min_element(threads_, {}, [](const auto& entry) { return entry.second.free; });
  return least == threads_.end() ? std::nullopt : std::optional(least->second.free);
}

}  // namespace shardproof::launcher

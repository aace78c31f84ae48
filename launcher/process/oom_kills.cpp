#include "launcher/process/oom_kills.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>
#include <utility>

#include "launcher/files/small_file.hpp"

namespace shardproof::launcher {

namespace {

/// Calls `take` with each line until it returns true.
template <class Take> void each_line(std::string_view text, Take take) {
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    if (take(text.substr(0, end))) return;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace

std::filesystem::path oom_counter_file(std::string_view groups) {
  std::filesystem::path file = "/proc/vmstat";
  each_line(groups, [&](std::string_view line) {
    constexpr std::string_view unified = "0::/", memory = ":memory:/";
    const auto at = line.find(memory);
    if (at != std::string_view::npos) {
      file = "/sys/fs/cgroup/memory" / std::filesystem::path(line.substr(at + memory.size())) / "memory.oom_control";
      return true;  // its counters are not in the unified hierarchy
    }
    std::error_code none;
    const auto counter = line.starts_with(unified)
                             ? "/sys/fs/cgroup" / std::filesystem::path(line.substr(unified.size())) / "memory.events"
                             : std::filesystem::path();
    if (!counter.empty() && std::filesystem::exists(counter, none)) file = counter;
    return false;
  });
  return file;
}

std::optional<std::uint64_t> oom_kills_in(std::string_view text) {
  std::optional<std::uint64_t> count;
  each_line(text, [&](std::string_view line) {
    constexpr std::string_view name = "oom_kill ";
    std::uint64_t number = 0;
    if (!line.starts_with(name)) return false;
    const std::string_view digits = line.substr(name.size());
    if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec == std::errc()) count = number;
    return true;
  });
  return count;
}

std::optional<std::uint64_t> oom_kills() {
  return oom_kills_in(whole_text(oom_counter_file(whole_text("/proc/self/cgroup"))));
}

OomKills::OomKills(Counter count) : count_(std::move(count)), given_(count_()) {}

bool OomKills::take() {
  const auto now = count_();
  if (!given_ || !now || *now <= *given_) return false;
  ++*given_;
  return true;
}

void OomKills::forget() { given_ = count_(); }

}  // namespace shardproof::launcher

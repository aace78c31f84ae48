#include "launcher/process/machine.hpp"

#include <fmt/chrono.h>
#include <sched.h>
#include <sys/utsname.h>

#include <array>
#include <fstream>
#include <sstream>
#include <string_view>

#include "launcher/files/small_file.hpp"

namespace shardproof::launcher {
namespace {

/// The text after the colon of the first line that starts with `key`.
std::string field(const std::filesystem::path& file, std::string_view key) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with(key)) continue;
    const auto value = line.find_first_not_of(" \t", line.find(':') + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "";
}

/// A work tree's `.git` is a directory, or a file that names one.
std::filesystem::path git_directory(const std::filesystem::path& entry) {
  if (std::filesystem::is_directory(entry)) return entry;
  const std::string line = first_line(entry);
  constexpr std::string_view key = "gitdir: ";
  return line.starts_with(key) ? entry.parent_path() / line.substr(key.size()) : std::filesystem::path();
}

std::string commit_of(const std::filesystem::path& git) {
  const std::string head = first_line(git / "HEAD");
  constexpr std::string_view key = "ref: ";
  if (!head.starts_with(key)) return head;
  const std::string reference = head.substr(key.size());
  const std::string shared = first_line(git / "commondir");
  const std::filesystem::path common = shared.empty() ? git : git / shared;
  if (std::string commit = first_line(common / reference); !commit.empty()) return commit;
  std::istringstream packed(whole_text(common / "packed-refs"));
  for (std::string line; std::getline(packed, line);) {
    if (line.ends_with(" " + reference)) return line.substr(0, line.find(' '));
  }
  return "";
}

}  // namespace

int usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 0;
}

std::map<std::string, std::string> machine_facts() {
  std::map<std::string, std::string> facts;
  utsname names{};
  if (uname(&names) == 0) {
    facts["host"] = names.nodename;
    facts["kernel"] = std::string(names.sysname) + " " + names.release;
    facts["architecture"] = names.machine;
  }
  facts["cpu"] = field("/proc/cpuinfo", "model name");
  facts["cores"] = std::to_string(usable_cores());
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
  return facts;
}

std::string driver_version() { return first_line("/proc/driver/nvidia/version"); }

std::map<std::string, std::string> recorded_environment(std::span<const std::string> environment) {
  static constexpr std::array<std::string_view, 10> prefixes{
      "SHARDPROOF_", "CUDA_", "NCCL_", "OMP_", "LD_", "ASAN_", "UBSAN_", "TSAN_OPTIONS", "PYTHON", "TORCH_"};
  static constexpr std::array<std::string_view, 5> names{"LANG", "LC_ALL", "TZ", "TMPDIR", "MALLOC_ARENA_MAX"};
  std::map<std::string, std::string> result;
  for (const std::string_view entry : environment) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals);
    bool recorded = false;
    for (const std::string_view prefix : prefixes) recorded = recorded || name.starts_with(prefix);
    for (const std::string_view known : names) recorded = recorded || name == known;
    if (recorded) result.emplace(name, entry.substr(equals + 1));
  }
  return result;
}

std::string utc_text(std::time_t time) { return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(time)); }

std::string git_commit(const std::filesystem::path& directory) {
  if (directory.empty()) return "";
  std::error_code ignored;
  for (std::filesystem::path place = std::filesystem::absolute(directory);; place = place.parent_path()) {
    if (std::filesystem::exists(place / ".git", ignored)) return commit_of(git_directory(place / ".git"));
    if (!place.has_relative_path()) return "";
  }
}

}  // namespace shardproof::launcher

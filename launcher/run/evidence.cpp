#include "launcher/run/evidence.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "harness/base/file_descriptor.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/small_file.hpp"

namespace shardproof::launcher {

using control::Deadline;

namespace {

using Clock = std::chrono::steady_clock;

/// The number of simultaneous tools: enough to be quick, and few enough not to overload the machine.
constexpr std::size_t most_at_once = 4;

/// Between two looks at how long the ranks have run.
constexpr std::chrono::milliseconds between_looks{20};

/// Whether the process is in `State:\tT (stopped)`. Before our tools begin, that is the effect of a signal.
bool is_stopped(const std::filesystem::path& process) {
  return whole_text(process / "status").find("State:\tT") != std::string::npos;
}

std::string status_of(const std::filesystem::path& process) {
  std::string text = whole_text(process / "status");
  if (text.empty()) return fmt::format("{} is gone\n", process.string());
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(process / "task", error)) {
    const auto line = [&](const char* name) {
      const std::string value = first_line(thread.path() / name);
      return value.empty() ? std::string("-") : value;
    };
    text += fmt::format("thread {} \"{}\": wchan {}, syscall {}\n", thread.path().filename().string(), line("comm"),
                        line("wchan"), line("syscall"));
  }
  return text;
}

std::optional<std::filesystem::path> find_in(const char* path, const char* program) {
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::filesystem::path candidate = std::filesystem::path(folder) / program;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

}  // namespace

void add_evidence(const std::filesystem::path& file, std::string_view text) {
  const base::FileDescriptor out = append_to_own_file(file, 3);
  while (out && !text.empty()) {
    const ssize_t written = ::write(out.get(), text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

std::optional<StackTool> find_stack_tool(const char* path) {
  if (const auto program = find_in(path, "eu-stack")) {
    return StackTool{.program = *program, .arguments = [](pid_t process) {
                       return std::vector<std::string>{"-p", std::to_string(process)};
                     }};
  }
  if (const auto program = find_in(path, "gdb")) {
    return StackTool{.program = *program, .arguments = [](pid_t process) {
                       return std::vector<std::string>{
                           "-batch", "-nx", "-ex", "thread apply all bt", "-p", std::to_string(process)};
                     }};
  }
  return std::nullopt;
}

EvidenceCollector::EvidenceCollector(const protocol::WorldDirectory& directory, const std::vector<Suspect>& suspects,
                                     const std::optional<StackTool>& tool, Poller& poller, std::uint64_t first_key)
    : directory_(directory),
      tool_(tool),
      poller_(poller),
      next_key_(first_key),
      until_(Clock::now() + time_limit),
      next_look_(Clock::now()) {
  for (const Suspect& suspect : suspects) {
    const std::filesystem::path process = fmt::format("/proc/{}", suspect.process);
    add_evidence(directory_.evidence() / fmt::format("rank-{}.status", suspect.rank), status_of(process));
    if (!is_stopped(process)) ran_.push_back(suspect.process);
    busy_.push_back({.suspect = suspect, .time = {}});
    if (tool_) {
      waiting_.push_back(suspect);
    } else {
      add_evidence(directory_.stacks(suspect.rank),
                   "no stacks: neither eu-stack (package elfutils) nor gdb is installed\n");
    }
  }
  const Deadline now = Clock::now();
  start_some(now);
  look_at_busy(now);
}

EvidenceCollector::~EvidenceCollector() {
  const bool was_cut_short = !running_.empty();
  while (!running_.empty()) end(running_.begin()->first, "no stacks: there was no time for them\n");
  for (const Suspect& suspect : waiting_)
    add_evidence(directory_.stacks(suspect.rank), "no stacks: there was no time for them\n");
  // A process stays stopped if its tracer dies.
  if (was_cut_short) std::ranges::for_each(ran_, [this](pid_t process) { resume(process); });
}

void EvidenceCollector::look_at_busy(Deadline now) {
  if (!running_.empty() || !waiting_.empty() || now < next_look_) return;  // a tool stops the process that it reads
  next_look_ = now + between_looks;
  std::erase_if(busy_, [now](Busy& one) {
    one.time.look(look_at_threads(one.suspect.process), now);
    const auto free = one.time.least();
    return !free || *free >= chance;
  });
}

/// A process that was stopped before the evidence began stays stopped.
void EvidenceCollector::resume(pid_t process) const {
  if (std::ranges::find(ran_, process) != ran_.end()) ::kill(process, SIGCONT);
}

/// Divides the rest of `time_limit` by the number of rounds that the remaining processes need.
Clock::duration EvidenceCollector::share(Deadline now) const {
  const auto rounds = (waiting_.size() + running_.size() + most_at_once - 1) / most_at_once;
  return (until_ - now) / static_cast<Clock::rep>(std::max<std::size_t>(rounds, 1));
}

void EvidenceCollector::start_some(Deadline now) {
  while (running_.size() < most_at_once && !waiting_.empty()) {
    const Deadline until = now + share(now);
    const Suspect suspect = waiting_.front();
    waiting_.pop_front();
    const base::FileDescriptor out = append_to_own_file(directory_.stacks(suspect.rank), 3);
    if (!out) continue;
    try {
      Process process = Process::spawn({.program = tool_->program,
                                        .arguments = tool_->arguments(suspect.process),
                                        .environment = {"PATH=/usr/bin:/bin", "LC_ALL=C", "HOME=/", "DEBUGINFOD_URLS="},
                                        .standard_output = out.get(),
                                        .standard_error = out.get()});
      poller_.add(process.descriptor(), next_key_);
      running_.emplace(next_key_++, StackTrace{.suspect = suspect, .process = std::move(process), .until = until});
    } catch (const std::system_error& error) {
      add_evidence(directory_.stacks(suspect.rank), fmt::format("no stacks: {}\n", error.what()));
    }
  }
}

void EvidenceCollector::end(std::uint64_t key, const std::string& note) {
  const auto found = running_.find(key);
  poller_.remove(found->second.process.descriptor());
  if (!note.empty()) add_evidence(directory_.stacks(found->second.suspect.rank), note);
  running_.erase(found);
}

void EvidenceCollector::advance(const std::vector<std::uint64_t>& ready, Deadline now) {
  for (const std::uint64_t key : ready) {
    if (running_.contains(key)) end(key, "");
  }
  std::vector<std::uint64_t> late;
  for (const auto& [key, trace] : running_) {
    if (now >= std::min(trace.until, until_)) late.push_back(key);
  }
  for (const std::uint64_t key : late) {
    resume(running_.at(key).suspect.process);
    end(key, fmt::format("no stacks: {} took too long\n", tool_->program.string()));
  }
  if (now < until_) {
    start_some(now);
    look_at_busy(now);
  } else {
    for (const Busy& one : busy_) {
      if (const auto free = one.time.least())
        add_evidence(directory_.evidence() / fmt::format("rank-{}.status", one.suspect.rank),
                     fmt::format("after its stacks were taken, it got a processor for only {} ms\n",
                                 std::chrono::duration_cast<std::chrono::milliseconds>(*free).count()));
    }
    busy_.clear();
    for (const Suspect& suspect : waiting_)
      add_evidence(directory_.stacks(suspect.rank), "no stacks: there was no time for them\n");
    waiting_.clear();
  }
}

Deadline EvidenceCollector::deadline() const {
  Deadline next = running_.empty() ? std::min(until_, next_look_) : until_;
  for (const auto& [key, trace] : running_) next = std::min(next, trace.until);
  return next;
}

}  // namespace shardproof::launcher

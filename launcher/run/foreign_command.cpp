#include "launcher/run/foreign_command.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>

namespace shardproof::launcher {

using control::Deadline;

namespace {

using Clock = std::chrono::steady_clock;

/// The text for a shell, which adds the guard to the command. The shell's process becomes that of a plain command: so
/// signals reach it, and its end is exact. A command that sets variables first, or has several parts, needs the shell.
std::string shell_text(std::string_view command) {
  const std::size_t begin = std::min(command.find_first_not_of(" \t\n"), command.size());
  command = command.substr(begin, command.find_last_not_of(" \t\n") + 1 - begin);
  const std::string_view first = command.substr(0, command.find_first_of(" \t\n"));
  const bool is_plain =
      first.find('=') == std::string_view::npos && command.find_first_of(";&|\n") == std::string_view::npos;
  return fmt::format("{}{} \"$@\"", is_plain ? "exec " : "", command);
}

}  // namespace

std::string launcher_command(std::string command, int world_size) {
  const std::string size = std::to_string(world_size);
  for (std::size_t at = 0; (at = command.find(ranks_word, at)) != std::string::npos; at += size.size())
    command.replace(at, sizeof ranks_word - 1, size);
  return command;
}

ForeignCommand::ForeignCommand(std::string line, Poller& poller, std::uint64_t key)
    : line_(std::move(line)), poller_(poller), key_(key) {}

void ForeignCommand::start(const std::filesystem::path& world, const base::FileDescriptor& log) {
  Command command{.program = "/bin/sh",
                  .arguments = {"-c", shell_text(line_), "sh", std::filesystem::read_symlink("/proc/self/exe").string(),
                                "guard", "--join", std::filesystem::absolute(world).string()},
                  .environment = {},
                  .standard_output = log.get(),
                  .standard_error = log.get()};
  for (char** entry = environ; *entry != nullptr; ++entry) command.environment.emplace_back(*entry);
  process_.emplace(Process::spawn(command));
  poller_.add(process_->descriptor(), key_);
}

bool ForeignCommand::collect() {
  if (!process_) return false;
  end_ = process_->collect();
  if (!end_) return false;
  ended_at_ = Clock::now();
  poller_.remove(process_->descriptor());
  process_.reset();
  return true;
}

void ForeignCommand::end_at(Deadline at) {
  terminate_at_ = std::min(terminate_at_, at);
  kill_at_ = std::min(kill_at_, terminate_at_ + between_measures);
  abandon_at_ = std::min(abandon_at_, kill_at_ + Process::unkillable_after);
}

Deadline ForeignCommand::deadline() const { return std::min({terminate_at_, kill_at_, abandon_at_}); }

ForeignCommand::Due ForeignCommand::take_measures(Deadline now) {
  Due due;
  if (now >= terminate_at_) {
    terminate_at_ = Deadline::max();
    if (process_) process_->signal_group(SIGTERM);
  }
  if (now >= kill_at_) {
    kill_at_ = Deadline::max();
    if (process_) process_->signal_group(SIGKILL);
    due.kill_guards = true;
  }
  if (now >= abandon_at_) {
    abandon_at_ = Deadline::max();
    if (process_) {
      poller_.remove(process_->descriptor());
      process_->abandon();
      process_.reset();
    }
    due.drop_guards = true;
  }
  return due;
}

}  // namespace shardproof::launcher

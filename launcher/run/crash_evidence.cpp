#include "launcher/run/crash_evidence.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <string>
#include <system_error>

#include "harness/base/input_file.hpp"
#include "harness/protocol/crash_record.hpp"
#include "launcher/run/crash_frames.hpp"
#include "launcher/run/evidence.hpp"
#include "reports/export/crash_text.hpp"

namespace shardproof::launcher {

using control::Deadline;
using protocol::Ending;
using protocol::WorldDirectory;
using protocol::WorldPlan;
using CrashedRank = CrashEvidence::CrashedRank;

namespace {

/// Why the rank's handler does not handle the signal. Empty: it does.
std::string reason_of_rank(const WorldPlan& plan, int rank, int number) {
  constexpr std::size_t most_bytes = std::size_t{64} << 10;
  const std::filesystem::path file = protocol::unsaved_signals(plan.rendezvous, rank);
  if (!base::is_there(file)) return {};
  try {
    std::istringstream lines(base::read_evidence(file, 1, most_bytes));
    const std::string begin = fmt::format("{} ", number);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(begin)) return line.substr(begin.size());
    }
    return {};
  } catch (const base::UnreadableFile& error) {
    return error.what();
  }
}

std::string why_no_record(const WorldPlan& plan, const Ending& ending, int process) {
  const std::string name = protocol::signal_text(ending.code);
  if (ending.code == SIGKILL || ending.code == SIGSTOP) return fmt::format("no process can handle {}", name);
  if (std::ranges::find(protocol::crash_signals, ending.code) == protocol::crash_signals.end())
    return fmt::format("stacks are not saved for {}", name);
  if (const std::string reason = reason_of_rank(plan, process, ending.code); !reason.empty())
    return fmt::format("the rank has no handler for {}: {}", name, reason);
  return fmt::format(
      "the rank could not save it. Other code may have replaced the handler of {}, or a thread that the program "
      "started has used up its stack",
      name);
}

std::string text_of(const CrashedRank& crashed, CrashFrameFinder& finder) {
  const auto record =
      protocol::parse_crash_record(base::read_evidence(crashed.record, 1, protocol::CrashHeader::most_bytes));
  if (!record) return reports::no_crash_text("the rank had no time or no memory to save it");
  const int of_thread = record->header.rank;
  if (crashed.is_thread && of_thread >= 0 && of_thread != crashed.rank)
    return reports::no_crash_text(fmt::format("rank {} crashed", of_thread));
  return reports::crash_text(crashed.rank, record->header, finder.find(*record));
}

void write_stacks(const WorldDirectory& directory, std::span<const CrashedRank> ranks) {
  CrashFrameFinder finder;
  for (const CrashedRank& crashed : ranks) {
    std::string text;
    try {
      text = text_of(crashed, finder);
    } catch (const base::UnreadableFile& error) {
      text = reports::no_crash_text(error.what());
    } catch (const std::exception& error) {
      text = reports::no_crash_text(fmt::format("the launcher could not find the functions: {}", error.what()));
    }
    add_evidence(directory.crash(crashed.rank), text);
  }
}

/// The child process. No exception leaves it: the child would go on as a second launcher, and end the ranks.
[[noreturn]] void read_records(pid_t launcher, const WorldDirectory& directory,
                               std::span<const CrashedRank> ranks) noexcept {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != launcher) ::_exit(EXIT_FAILURE);  // it ended before
  ::unsetenv("DEBUGINFOD_URLS");  // a server could take minutes
  try {
    write_stacks(directory, ranks);
  } catch (...) {
    ::_exit(EXIT_FAILURE);
  }
  ::_exit(EXIT_SUCCESS);
}

}  // namespace

CrashEvidence::CrashEvidence(const WorldPlan& plan, const WorldDirectory& directory, std::span<const Ending> endings,
                             Poller& poller, std::uint64_t key)
    : directory_(directory), poller_(poller), key_(key), until_(std::chrono::steady_clock::now() + time_limit) {
  const bool is_thread = plan.fabric == protocol::thread_fabric;
  for (const bool is_cause : {true, false}) {
    for (const Ending& ending : endings) {
      const bool has_signal = ending.how == Ending::How::signalled;
      if (ending.is_cause != is_cause || (!has_signal && ending.how != Ending::How::exited)) continue;
      const int process = is_thread ? 0 : ending.rank;
      std::filesystem::path record = protocol::crash_record(plan.rendezvous, process);
      if (base::is_there(record))
        crashed_.push_back({.rank = ending.rank, .record = std::move(record), .is_thread = is_thread});
      else if (has_signal)
        add_evidence(directory_.crash(ending.rank), reports::no_crash_text(why_no_record(plan, ending, process)));
    }
  }
  if (!crashed_.empty()) start();
}

/// In a child process, because libdw trusts the files that it reads.
void CrashEvidence::start() {
  const pid_t launcher = ::getpid();
  const pid_t child = ::fork();
  if (child == 0) read_records(launcher, directory_, crashed_);
  if (child < 0) return give_up(fmt::format("the launcher could not fork: {}", std::generic_category().message(errno)));
  ::setpgid(child, child);  // whichever of the two is first
  try {
    reader_.emplace(Process::adopt(child));
  } catch (const std::system_error& error) {
    return give_up(error.what());
  }
  poller_.add(reader_->descriptor(), key_);
}

void CrashEvidence::advance(const std::vector<std::uint64_t>& ready, Deadline now) {
  if (!reader_) return;
  if (std::ranges::find(ready, key_) == ready.end()) {
    if (now >= until_) stop("there was no time to read the debug information");
    return;
  }
  try {
    const auto end = reader_->collect();
    if (end) stop(fmt::format("the process that reads its record ended with {}", describe(*end)));
  } catch (const std::system_error& error) {
    stop(error.what());
  }
}

void CrashEvidence::stop(std::string_view why) {
  if (!reader_) return;
  poller_.remove(reader_->descriptor());
  reader_.reset();
  give_up(why);
}

void CrashEvidence::give_up(std::string_view why) const {
  for (const CrashedRank& crashed : crashed_) {
    const std::filesystem::path file = directory_.crash(crashed.rank);
    if (!base::is_there(file)) add_evidence(file, reports::no_crash_text(why));
  }
}

}  // namespace shardproof::launcher

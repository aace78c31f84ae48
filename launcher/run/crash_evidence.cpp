#include "launcher/run/crash_evidence.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/protocol/crash_record.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/process/process.hpp"
#include "launcher/run/crash_frames.hpp"
#include "launcher/run/evidence.hpp"
#include "reports/export/crash_text.hpp"

namespace shardproof::launcher {

using control::Deadline;
using protocol::Ending;
using protocol::WorldDirectory;
using protocol::WorldPlan;

namespace {

/// Why the rank's handler does not handle the signal. Empty: it does.
std::string reason_of_rank(const WorldPlan& plan, int rank, int number) {
  std::istringstream lines(whole_text(protocol::unsaved_signals(plan.rendezvous, rank)));
  const std::string begin = fmt::format("{} ", number);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin)) return line.substr(begin.size());
  }
  return {};
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

/// Writes the stack in a child process, because libdw trusts the files that it reads.
void write_stack(const protocol::CrashRecord& record, int rank, const std::filesystem::path& file, Deadline until) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::signal(SIGSEGV, SIG_DFL);
    ::unsetenv("DEBUGINFOD_URLS");  // a server could take minutes
    add_evidence(file, reports::crash_text(rank, record.header, find_crash_frames(record)));
    ::_exit(0);
  }
  const auto give_up = [&](std::string_view why) { add_evidence(file, reports::no_crash_text(why)); };
  if (child < 0) return give_up(fmt::format("the launcher could not fork: {}", std::generic_category().message(errno)));
  ::setpgid(child, child);  // whichever of the two is first
  try {
    const std::optional<Exit> end = Process::adopt(child).wait(until);
    if (!end) give_up("there was no time to read the debug information");
    else if (*end != Exit{}) give_up(fmt::format("the process that reads it ended with {}", describe(*end)));
  } catch (const std::system_error& error) {
    give_up(error.what());
  }
}

void keep_crash_stack(const WorldPlan& plan, const WorldDirectory& directory, const Ending& ending, Deadline until) {
  const bool is_one_process = plan.fabric == protocol::thread_fabric;
  const int process = is_one_process ? 0 : ending.rank;
  const std::filesystem::path file = protocol::crash_record(plan.rendezvous, process);
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown)) {
    if (ending.how == Ending::How::signalled)
      add_evidence(directory.crash(ending.rank), reports::no_crash_text(why_no_record(plan, ending, process)));
    return;
  }
  // The rank may have put another file there.
  const bool is_too_large = std::filesystem::file_size(file, unknown) > protocol::CrashHeader::most_bytes || unknown;
  const auto record = protocol::parse_crash_record(is_too_large ? std::string() : whole_text(file));
  if (!record)
    return add_evidence(directory.crash(ending.rank),
                        reports::no_crash_text("the rank had no time or no memory to save it"));
  const int of_thread = record->header.rank;
  if (is_one_process && of_thread >= 0 && of_thread != ending.rank)
    return add_evidence(directory.crash(ending.rank),
                        reports::no_crash_text(fmt::format("rank {} crashed", of_thread)));
  write_stack(*record, ending.rank, directory.crash(ending.rank), until);
}

}  // namespace

void keep_crash_stacks(const WorldPlan& plan, const WorldDirectory& directory, std::span<const Ending> endings) {
  const Deadline until = std::chrono::steady_clock::now() + crash_time_limit;
  for (const Ending& ending : endings) {
    if (ending.how == Ending::How::signalled || ending.how == Ending::How::exited)
      keep_crash_stack(plan, directory, ending, until);
  }
}

}  // namespace shardproof::launcher

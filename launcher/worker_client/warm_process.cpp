#include "launcher/worker_client/warm_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "harness/protocol/environment.hpp"
#include "launcher/files/output.hpp"
#include "launcher/files/small_file.hpp"
#include "launcher/files/standard_streams.hpp"
#include "launcher/launcher.hpp"
#include "launcher/process/poller.hpp"

namespace shardproof::launcher {
namespace {

constexpr std::uint64_t socket_key = 0, process_key = 1, signal_key = 2;

/// The time limit for the ranks of a world that must be copies. On a healthy machine, a copy takes milliseconds.
constexpr std::chrono::seconds copying_limit{60};
/// The same for ranks that can also be started without copies.
constexpr std::chrono::seconds short_copying_limit{10};

/// The place for variables of ranks: a path, and numbers.
constexpr std::size_t room_for_variables = 8192;

/// The time limit from the end of a process's socket to the end of the process.
constexpr std::chrono::seconds ending_limit{1};

Process start(const Worker& worker, const std::string& subject, const std::filesystem::path& log,
              base::FileDescriptor& socket) {
  auto [ours, theirs] = protocol::make_warm_sockets();
  const base::FileDescriptor output = open_log(log);
  Command command{.program = worker.program,
                  .arguments = {"--warm"},
                  .environment = worker.environment,
                  .standard_output = output.get(),
                  .standard_error = output.get(),
                  .third = theirs.get()};
  if (!subject.empty()) command.arguments.insert(command.arguments.end(), {"--subject", subject});
  // Otherwise each copy would look up the functions that it calls. A subject can bring so many that this takes seconds.
  else command.environment.emplace_back("LD_BIND_NOW=1");
  // After the variables that ranks have, too: those keep their place in each copy.
  command.environment.push_back(fmt::format("{}={}", protocol::environment::parent, getpid()));
  command.environment.push_back(
      fmt::format("{}={}", protocol::environment::room, std::string(room_for_variables, ' ')));
  socket = std::move(ours);
  return Process::spawn(command);
}

/// The text after an error that is also in a log.
std::string log_hint(const std::filesystem::path& log) { return fmt::format("\n(its output: {})", log.string()); }

/// The pipe from which ranks read before they begin.
struct Gate {
  Gate() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      throw std::system_error(errno, std::generic_category(), "pipe for ranks that begin");
    theirs = base::FileDescriptor(ends[0]);
    ours = base::FileDescriptor(ends[1]);
  }
  /// A byte for each rank. The pipe has room for all of them. Our own `theirs` is still open, so that this is no error
  /// if all ranks have ended already.
  void open(std::size_t ranks) {
    const std::string bytes(ranks, '!');
    if (::write(ours.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size()))
      throw std::system_error(errno, std::generic_category(), "let ranks begin");
  }
  base::FileDescriptor theirs, ours;
};

}  // namespace

WarmProcess::WarmProcess(const Worker& worker, const std::filesystem::path& log, SignalWatch& signals)
    : signals_(signals), log_(log), leftovers_(worker.started), process_(start(worker, {}, log, socket_)) {}

WarmProcess::WarmProcess(const Worker& worker, const std::string& subject, const std::filesystem::path& log,
                         SignalWatch& signals, std::chrono::milliseconds time_limit)
    : signals_(signals),
      subject_(subject),
      log_(log),
      leftovers_(worker.started),
      process_(start(worker, subject, log, socket_)) {
  const auto refusal = [&](const std::string& why) {
    return CommandError(infrastructure,
                        fmt::format("cannot prepare subject {} of {}: {}", subject, worker.program.string(), why));
  };
  protocol::CopyAnswer answer;
  try {
    answer = wait_for_answer(std::chrono::steady_clock::now() + time_limit);
  } catch (const NoCopy& error) {
    if (const auto number = signals_.take()) throw CommandError(static_cast<ExitCode>(128 + *number), "interrupted");
    throw refusal(error.what());
  }
  for (const std::string& warning : answer.warnings)
    print_error(fmt::format("warning: preparing subject {}: {}", subject, warning));
  if (answer.error) throw refusal(*answer.error + log_hint(log_));
  warnings_ = std::move(answer.warnings);
  is_ready_ = true;
}

WarmProcess::~WarmProcess() {
  try {
    process_.signal_group(SIGKILL);
    process_.wait(std::chrono::steady_clock::now() + Process::unkillable_after);
    for (const Leftover& leftover : leftovers_.end())
      print_error(fmt::format("warning: the process {} left {}",
                              is_required() ? "that prepared subject " + subject_ : "that ranks are copied from",
                              describe(leftover)));
  } catch (const std::exception&) {
    // No channel is left to report it. The members' destructors do the rest.
  }
}

void WarmProcess::wait_until_ready() {
  if (is_ready_) return;
  const protocol::CopyAnswer answer = wait_for_answer(std::chrono::steady_clock::now() + worker_time_limit);
  is_ready_ = true;
  if (!answer.error) return;
  has_refused_ = true;
  failure_ = *answer.error;
  throw NoCopy(failure_);
}

std::vector<Process> WarmProcess::copy(const protocol::CopyRequest& request, const std::filesystem::path& plan) {
  if (!failure_.empty()) throw NoCopy(failure_);
  try {
    return try_to_copy(request);
  } catch (const std::runtime_error& error) {  // NoCopy, or an error of the system: too many open files, say
    if (!is_required()) retire(error.what());
    leftovers_.end_of(plan);
    if (is_required()) throw;
    throw NoCopy(error.what());
  }
}

std::vector<Process> WarmProcess::try_to_copy(const protocol::CopyRequest& request) {
  wait_until_ready();
  Gate gate;
  try {
    protocol::send_request(socket_.get(), request, gate.theirs.get());
  } catch (const std::system_error& error) {
    if (error.code().value() == EPIPE || error.code().value() == ECONNRESET) throw_end();
    throw NoCopy(error.what());
  }
  const protocol::CopyAnswer answer =
      wait_for_answer(std::chrono::steady_clock::now() + (is_required() ? copying_limit : short_copying_limit));
  std::vector<Process> copies;
  for (const pid_t process : answer.processes) {
    try {
      copies.push_back(Process::adopt(process));
    } catch (const std::system_error& error) {
      give_up(fmt::format("it names process {} as a copy: {}", process, error.what()));
    }
  }
  if (answer.error) throw NoCopy(*answer.error + log_hint(log_));
  if (copies.size() != request.ranks.size())
    give_up(fmt::format("it made {} copies instead of {}", copies.size(), request.ranks.size()));
  gate.open(copies.size());
  return copies;
}

/// Ends the process. It may count against the number of processes that the user may have.
void WarmProcess::retire(const std::string& why) {
  failure_ = why;
  process_.signal_group(SIGKILL);
  process_.wait(std::chrono::steady_clock::now() + Process::unkillable_after);
}

std::optional<std::string> WarmProcess::take_warning(const NoCopy& error) {
  if (has_refused_ || std::exchange(has_warned_, true)) return std::nullopt;
  return fmt::format("ranks are started one by one from now on: {}", error.what());
}

protocol::CopyAnswer WarmProcess::wait_for_answer(control::Deadline deadline) {
  Poller poller;
  poller.add(socket_.get(), socket_key);
  poller.add(process_.descriptor(), process_key);
  poller.add(signals_.descriptor(), signal_key);
  const std::vector<std::uint64_t> ready = poller.wait(deadline);
  const auto is_ready = [&](std::uint64_t key) { return std::ranges::find(ready, key) != ready.end(); };
  if (is_ready(socket_key)) {
    try {
      if (auto answer = protocol::receive_answer(socket_.get())) return std::move(*answer);
    } catch (const std::invalid_argument& error) {
      give_up(fmt::format("it gave a malformed answer: {}", error.what()));
    }
    throw_end();
  }
  if (is_ready(process_key)) throw_end();
  if (is_ready(signal_key)) {
    has_warned_ = true;  // the end of the run is not news
    give_up("it was interrupted");
  }
  give_up("it did not answer in time");
}

void WarmProcess::give_up(const std::string& why) {
  process_.signal_group(SIGKILL);
  // An answer may still arrive, for a request without a waiting caller.
  failure_ = fmt::format("process {}, which ranks are copied from, is unusable: {}{}", pid(), why, log_hint(log_));
  throw NoCopy(failure_);
}

void WarmProcess::throw_end() {
  const auto end = process_.wait(std::chrono::steady_clock::now() + ending_limit);
  if (!end) give_up("it has closed its socket");
  const std::string words = last_words(log_);
  failure_ = fmt::format("process {}, which ranks are copied from, ended with {}{}{}{}", pid(), describe(*end),
                         words.empty() ? "" : ":\n", words, log_hint(log_));
  throw NoCopy(failure_);
}

}  // namespace shardproof::launcher

#include "launcher/worker_client/warm_process.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
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

/// The time limit for a copy. On a healthy machine, a copy takes milliseconds.
constexpr std::chrono::seconds copying_limit{60};

/// The time limit from the end of a process's socket to the end of the process.
constexpr std::chrono::seconds ending_limit{1};

Process start(const Worker& worker, const std::string& subject, const std::filesystem::path& log,
              base::FileDescriptor& socket) {
  auto [ours, theirs] = protocol::make_warm_sockets();
  const base::FileDescriptor output = open_log(log);
  Command command{.program = worker.program,
                  .arguments = {"--warm", "--subject", subject},
                  .environment = worker.environment,
                  .standard_output = output.get(),
                  .standard_error = output.get(),
                  .third = theirs.get()};
  command.environment.push_back(fmt::format("{}={}", protocol::environment::parent, getpid()));
  socket = std::move(ours);
  return Process::spawn(command);
}

/// The text after an error that is also in a log.
std::string log_hint(const std::filesystem::path& log) { return fmt::format("\n(its output: {})", log.string()); }

}  // namespace

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
}

WarmProcess::~WarmProcess() {
  try {
    process_.signal_group(SIGKILL);
    process_.wait(std::chrono::steady_clock::now() + Process::unkillable_after);
    for (const Leftover& leftover : leftovers_.end())
      print_error(fmt::format("warning: the process that prepared subject {} left {}", subject_, describe(leftover)));
  } catch (const std::exception&) {
    // No channel is left to report it. The members' destructors do the rest.
  }
}

Process WarmProcess::copy(const Command& command) {
  if (!failure_.empty()) throw NoCopy(failure_);
  try {
    protocol::send_request(socket_.get(), command.environment, command.standard_output, command.standard_error);
  } catch (const std::system_error& error) {
    if (error.code().value() == EPIPE || error.code().value() == ECONNRESET) throw_end();
    throw NoCopy(error.what());
  }
  const protocol::CopyAnswer answer = wait_for_answer(std::chrono::steady_clock::now() + copying_limit);
  if (answer.error) throw NoCopy(*answer.error + log_hint(log_));
  try {
    return Process::adopt(answer.process);
  } catch (const std::system_error& error) {
    give_up(fmt::format("it names process {} as a copy: {}", answer.process, error.what()));
  }
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
  if (is_ready(signal_key)) give_up("it was interrupted");
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
  throw NoCopy(fmt::format("process {}, which ranks are copied from, ended with {}{}{}{}", pid(), describe(*end),
                           words.empty() ? "" : ":\n", words, log_hint(log_)));
}

}  // namespace shardproof::launcher

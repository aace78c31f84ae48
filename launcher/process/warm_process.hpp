// The launcher's side of a warm process (harness/protocol/warm_socket.hpp). A worker whose runtime takes seconds to start does so once for
// a whole run: ranks are copies of one process of it, and children of the launcher like any that it has started itself.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/base/file_descriptor.hpp"
#include "harness/protocol/warm_socket.hpp"
#include "launcher/process/leftovers.hpp"
#include "launcher/process/process.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {

/// For a runtime to start, from a cold disk perhaps.
inline constexpr std::chrono::minutes preparing_limit{5};

class WarmProcess {
 public:
  /// Why there is no copy: with what the process says, or how it ended.
  class NoCopy : public std::runtime_error {
   public:
    using std::runtime_error::runtime_error;
  };

  /// Starts the worker and waits until it has prepared this subject (a name, or the path of a shared object). What it prints goes to `log`.
  /// Throws CommandError: infrastructure where it cannot or is not ready in time; usage where there is no writing to `log`; with 128 + n
  /// when signal n came meanwhile. Throws std::system_error where no process can be started. `signals` is borrowed.
  WarmProcess(const Worker& worker, const std::string& subject, const std::filesystem::path& log, SignalWatch& signals,
              std::chrono::milliseconds patience = preparing_limit);
  WarmProcess(const WarmProcess&) = delete;
  /// Ends it, and what it has started and not ended, as daemons are, which is said. What this process has started later must have ended.
  ~WarmProcess();

  pid_t pid() const { return process_.pid(); }
  /// What the subject said when it was prepared.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// A rank with the command's environment and output; its program and its arguments are this process's own. Throws NoCopy, without waiting
  /// any longer where a signal comes: then, or when an answer is none, this process is done for.
  Process copy(const Command& command);

 private:
  CopyAnswer wait_for_answer(Deadline deadline);
  /// Ends what cannot be relied on any more, and says so.
  [[noreturn]] void give_up(const std::string& why);
  [[noreturn]] void tell_end();

  SignalWatch& signals_;
  std::string subject_;
  std::filesystem::path log_;
  Leftovers leftovers_;  ///< of the process and all of its own
  FileDescriptor socket_;
  Process process_;
  std::vector<std::string> warnings_;
  std::string useless_;  ///< why nothing is asked of it any more
};

/// To be called before the first rank of a run, in whose directory `log` is: the worker's runtime keeps what it caches in `cache` beside
/// it. Where ranks on the subject of these options are to be copies, starts the process that they are copies of, and shows the user what
/// the subject warns of. Ranks under the NCCL tap are none: it has to be there before their program.
void warm_up(Worker& worker, const PlanOptions& options, const std::filesystem::path& log, SignalWatch& signals);

}  // namespace shardproof::launcher

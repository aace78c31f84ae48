// The launcher's side of a warm process (harness/protocol/warm_socket.hpp). A warm process does once for a whole run
// what all ranks do alike: it starts a slow runtime, or binds its cases. Ranks are copies of this process. Each copy is
// a child of the launcher, like a rank that the launcher has started itself.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/base/file_descriptor.hpp"
#include "harness/protocol/warm_socket.hpp"
#include "launcher/process/leftovers.hpp"
#include "launcher/process/process.hpp"
#include "launcher/process/signal_watch.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::launcher {

/// The time limit for a runtime to start, perhaps from a cold disk.
inline constexpr std::chrono::minutes preparing_limit{5};

class WarmProcess {
 public:
  /// Why there is no copy: the process's own message, or how the process ended.
  class NoCopy : public std::runtime_error {
   public:
    using std::runtime_error::runtime_error;
  };

  /// Starts the worker without a subject, and does not wait. Ranks can also be started without copies: the caller does
  /// that after NoCopy. Borrows `signals`. Throws CommandError (usage) if `log` cannot be written, and
  /// std::system_error if no process can be started.
  WarmProcess(const Worker& worker, const std::filesystem::path& log, SignalWatch& signals);
  /// Starts the worker and waits until it has prepared `subject`, a name or the path of a shared object. The worker's
  /// output goes to `log`. Borrows `signals`. Throws:
  ///   - CommandError (infrastructure) if the worker cannot prepare the subject, or is not ready within `time_limit`,
  ///   - CommandError (usage) if `log` cannot be written,
  ///   - CommandError with code 128 + n if signal n arrives meanwhile,
  ///   - std::system_error if no process can be started.
  WarmProcess(const Worker& worker, const std::string& subject, const std::filesystem::path& log, SignalWatch& signals,
              std::chrono::milliseconds time_limit = preparing_limit);
  WarmProcess(const WarmProcess&) = delete;
  /// Ends the process and its leftovers, such as daemons, and reports the leftovers. Processes that this launcher has
  /// started later must have ended.
  ~WarmProcess();

  pid_t pid() const { return process_.pid(); }
  /// The subject's warnings while it was prepared.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Makes ranks of the plan in this file, which meet when this has returned. They have the warm process's program and
  /// arguments. Throws NoCopy: then all of them have ended, and some may have begun their streams. If `is_required()`
  /// is false, no further copy is possible then. If it is true, it may also throw std::system_error, and no further
  /// copy is possible after an invalid answer, a missing answer or a signal. A signal ends the wait at once.
  std::vector<Process> copy(const protocol::CopyRequest& request, const std::filesystem::path& plan);
  /// Whether ranks must be copies.
  bool is_required() const { return !subject_.empty(); }
  /// The first error that a user should know of, once: why ranks are no longer copies. Nothing if they must be copies.
  std::optional<std::string> take_warning(const NoCopy& error);

 private:
  protocol::CopyAnswer wait_for_answer(control::Deadline deadline);
  void wait_until_ready();
  std::vector<Process> try_to_copy(const protocol::CopyRequest& request);
  void retire(const std::string& why);
  /// Kills the process, which is no longer reliable, and throws NoCopy with the reason.
  [[noreturn]] void give_up(const std::string& why);
  [[noreturn]] void throw_end();

  SignalWatch& signals_;
  std::string subject_;
  std::filesystem::path log_;
  Leftovers leftovers_;  ///< of the process and its descendants
  base::FileDescriptor socket_;
  Process process_;
  std::vector<std::string> warnings_;
  bool is_ready_ = false;
  bool has_refused_ = false;  ///< its program cannot be copied, which is no error
  bool has_warned_ = false;
  std::string failure_;  ///< why it makes no more copies; empty: it does
};

}  // namespace shardproof::launcher

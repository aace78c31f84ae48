// The worker's side of a warm process (harness/protocol/warm_socket.hpp). It does once what is the same for all ranks.
// Each rank is then a copy of it.
//
//   warm process ──copy──► process of a world ──copies──► ranks
//
// The process of a world does what is the same for its ranks, copies itself for each rank, and ends. So the ranks
// become children of the launcher, which adopts orphans.
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

#include "harness/base/file_descriptor.hpp"
#include "harness/protocol/warm_socket.hpp"

namespace shardproof::runner {

/// Prepares a process for copies, and copies it.
struct Copier {
  /// Without an error, the process is ready. It must not throw.
  std::function<protocol::CopyAnswer()> prepare;
  /// Like fork(2). It may throw.
  std::function<pid_t()> fork;
};

/// How a call of `stay_warm` ended.
struct WarmEnd {
  std::optional<int> code;  ///< The exit code of this process. nullopt: it is a rank now
  /// Of a rank, for `wait_for_launcher`. Before that, the rank may write its own logs and stream. It must not reach
  /// other ranks or run code of a user, because the launcher may still start another process in its place.
  base::FileDescriptor gate;
};

/// For a program that has no subject to prepare. Its `prepare` answers an error if copies could differ from
/// processes that are started: if the program has threads, open files, a sanitizer, or coverage.
Copier plain_copier();

/// Prepares this process, and reports this to the launcher. Then makes ranks from copies of this process, until the
/// launcher is gone. `prepare_world` runs in the process of a world, with the environment of all ranks, before its
/// ranks are copied. It must not throw.
///
/// Returns when the launcher is gone, when the process cannot be prepared, and in a copy that must now run as a rank.
/// The copy has its own environment, standard output and standard error; all else is unchanged. Its parent is the
/// launcher only when the launcher lets it begin.
///
/// Throws std::system_error if descriptor 3 is not a launcher's socket.
WarmEnd stay_warm(const Copier& copier, const std::function<void()>& prepare_world);

/// Returns when the launcher lets this copy begin. By then, the launcher is the parent of this process, and knows it.
/// If the launcher gives the copy up, ends this process.
void wait_for_launcher(const base::FileDescriptor& gate);

}  // namespace shardproof::runner

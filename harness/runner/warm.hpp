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

#include "harness/protocol/warm_socket.hpp"

namespace shardproof::runner {

/// Prepares a process for copies, and copies it.
struct Copier {
  /// Without an error, the process is ready. It must not throw.
  std::function<protocol::CopyAnswer()> prepare;
  /// Like fork(2). It may throw.
  std::function<pid_t()> fork;
};

/// For a program that has no subject to prepare. Its `prepare` answers an error if copies could differ from
/// processes that are started: if the program has threads, open files, a sanitizer, or coverage.
Copier plain_copier();

/// Prepares this process, and reports this to the launcher. Then makes ranks from copies of this process, until the
/// launcher is gone. `prepare_world` runs in the process of a world, with the environment of all ranks, before its
/// ranks are copied. It must not throw.
///
/// Returns the exit code of this process when the launcher is gone, or when the process cannot be prepared. Returns
/// nullopt in a copy that must now run as a rank. The copy has its own environment, standard output, standard error,
/// parent and process group; all else is unchanged. A copy does not return, and leaves no trace in the files of its
/// world, before the launcher lets it begin.
///
/// Throws std::system_error if descriptor 3 is not a launcher's socket.
std::optional<int> stay_warm(const Copier& copier, const std::function<void()>& prepare_world);

}  // namespace shardproof::runner

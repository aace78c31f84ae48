// Keeps the coverage data of a rank that its launcher ends. The counters of gcov and of LLVM are in the memory of the
// process until it exits, and a signal would lose them. A program without coverage is not changed. The main function of
// a rank (rank_main.cpp) calls these functions.
#pragma once

namespace shardproof::runner {

/// Whether the program was built with coverage.
bool has_coverage();

/// Makes SIGTERM write the coverage data of this process first, and then end the process. The launcher sends SIGTERM to
/// a rank that it has to end, and SIGKILL half a second later.
///
/// The runtimes' functions are not safe in a signal handler. They may hang, for example on a lock that the rank holds.
/// SIGKILL then ends the rank, and its data is lost.
///
/// Call it once, before the first case. A body that handles, ignores or blocks SIGTERM afterwards loses the data.
void save_coverage_at_sigterm();

/// Writes the coverage data, for a process that is about to end without exit handlers.
void save_coverage();

}  // namespace shardproof::runner

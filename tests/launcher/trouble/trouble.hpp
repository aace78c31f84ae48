// The troubles that ranks cause in the cases of this program. Ranks report them on their standard error, for tests that
// measure times.
#pragma once

#include <sys/types.h>

#include <shardproof.hpp>

namespace trouble {

/// Whether the environment variable TROUBLE has this name, and the process is rank 1.
bool in_trouble(const char* name);

/// The number of calls of this function in all processes with the same COUNTER, a file that grows by a byte with each
/// call.
int count();

/// The process from which this rank was forked; 0 if it is not a fork.
pid_t original();

/// Never returns: another process must kill this one.
[[noreturn]] void stay();

/// Starts a child that stays. Returns when signals to its rank's process group no longer reach the child. So the child
/// survives the end of the rank's group.
pid_t leave_a_child();

/// Reports `gone NANOSECONDS`, just before the rank causes its trouble.
void gone();

/// Meets all ranks in a collective. Reports `free NANOSECONDS` if the rank is released instead.
void meet(shardproof::Rank& rank);

}  // namespace trouble

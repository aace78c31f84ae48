// What ranks do to themselves in the cases of this program, and what they say of it on their standard error, for whoever measures.
#pragma once

#include <sys/types.h>

#include <shardproof.hpp>

namespace trouble {

/// TROUBLE in the environment names this, and the process is rank 1.
bool in_trouble(const char* name);

/// How often this has been called in all processes that have the same COUNTER, a file that grows by a byte each time.
int count();

/// The process that this rank is a copy of; 0: it is none.
pid_t original();

/// For ever: whoever is here has to be killed.
[[noreturn]] void stay();

/// Starts a child that stays, and returns once it is out of reach of signals to its rank's group: with the rank, only the group ends.
pid_t leave_a_child();

/// Says `gone NANOSECONDS`: what the rank does next is what its case is about.
void gone();

/// Meets all ranks, and says `free NANOSECONDS` when it is released instead.
void meet(shardproof::Rank& rank);

}  // namespace trouble

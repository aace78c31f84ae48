// Lists the threads of this process. A copy of the process would lack them, and a case must not leave one behind.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardproof::world {

/// The names of all threads but the calling thread, in the system's order. A thread that is ending is left out: the
/// thread that joined it may still see it for a moment. Empty if the system does not list threads.
std::vector<std::string> other_threads();

/// The number of all threads, also of threads that are ending. Much faster than a list of them.
std::size_t thread_count();

/// The ids of all threads, sorted, also of threads that are ending. Empty if the system does not list threads.
std::vector<pid_t> thread_ids();

/// True for a thread that has ended, or that no longer runs code of the program.
bool is_ending(pid_t thread);

/// How often the thread has been given a core; 0 if the kernel does not count. Nullopt: the thread does not sleep. A
/// thread that sleeps with the same number at two times has slept between them.
std::optional<std::uint64_t> turns_if_asleep(pid_t thread);

/// `thread 4711 "loader" (in futex_do_wait)`. The brackets have the function of the kernel in which it waits, where the
/// kernel reports it.
std::string describe_thread(pid_t thread);

}  // namespace shardproof::world

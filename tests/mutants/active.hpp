// Which mutant of the engine is switched on: one for the life of a process, or none. Mutated sources ask at each place that has a mutant.
#pragma once

#include <cstdint>
#include <type_traits>

namespace shardproof::mutants {

/// Whether the environment variable SHARDPROOF_MUTANT names this mutant, by eight hexadecimal digits. With SHARDPROOF_MUTANT_FROM=N, N from
/// 1, no mutant is active before the Nth pass of this thread's trainer. If SHARDPROOF_MUTANTS_REACHED names a file, each mutant that is
/// asked for when it could be active is added to the file once, as a line.
bool is_chosen(std::uint32_t mutant);

/// The trainer of this thread begins a forward.
void begin_pass();
/// The trainer of this thread is gone: its passes do not count for the next trainer.
void end_trainer();

/// Constants are computed by the compiler, where none is active.
constexpr bool active(std::uint32_t mutant) { return !std::is_constant_evaluated() && is_chosen(mutant); }

}  // namespace shardproof::mutants

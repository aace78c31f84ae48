// The active mutant of the engine: one for the life of a process, or none. Mutated sources query it at each place with
// a mutant.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace shardproof::mutants {

/// Whether the environment variable SHARDPROOF_MUTANT names this mutant, by eight hexadecimal digits. Two variables
/// hide mutants:
///   SHARDPROOF_MUTANT_FROM=N    No mutant is active before the Nth pass of this thread's trainer. N is 1 or more.
///   SHARDPROOF_MUTANT_TRAITS=N  No mutant is active before this thread's trainer has N traits.
/// SHARDPROOF_MUTANTS_REACHED=FILE adds a line to the file for each mutant that is asked for when it could be active:
/// once for each rank.
bool is_chosen(std::uint32_t mutant);

/// Sets the number of traits of this thread's trainer, or of the trainer that is made next.
void set_traits(std::size_t count);
/// Called when the trainer of this thread begins a forward.
void begin_pass();
/// Called when the trainer of this thread is gone. Its passes and traits do not count for the next trainer.
void end_trainer();

/// The compiler evaluates constants, and no mutant is active there.
constexpr bool active(std::uint32_t mutant) { return !std::is_constant_evaluated() && is_chosen(mutant); }

}  // namespace shardproof::mutants

// Which mutant of the engine is switched on: one for the life of a process, or none. Mutated sources ask at each place that has a mutant.
#pragma once

#include <cstdint>
#include <set>
#include <string_view>
#include <type_traits>

namespace shardproof::mutants {

/// Whether the environment variable SHARDPROOF_MUTANT names this mutant, by eight hexadecimal digits. Two variables hide mutants:
///   SHARDPROOF_MUTANT_FROM=N    No mutant is active before the Nth pass of this thread's trainer. N is 1 or more.
///   SHARDPROOF_MUTANT_TRAITS=A,B,...    No mutant is active while this thread's trainer lacks any of these traits.
/// SHARDPROOF_MUTANTS_REACHED=FILE adds lines to the file: each mutant that is asked for when it could be active, and the traits of the
/// trainer, separated by commas. The same mutant with the same traits is one line for each rank.
bool is_chosen(std::uint32_t mutant);

/// The trainer of this thread, or the one that is about to be made, has these traits from now on. The names live as long as the program.
void set_traits(const std::set<std::string_view>& traits);
/// The trainer of this thread begins a forward.
void begin_pass();
/// The trainer of this thread is gone: its passes and traits do not count for the next trainer.
void end_trainer();

/// Constants are computed by the compiler, where none is active.
constexpr bool active(std::uint32_t mutant) { return !std::is_constant_evaluated() && is_chosen(mutant); }

}  // namespace shardproof::mutants

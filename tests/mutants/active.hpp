// Which mutant of the engine is switched on: one for the life of a process, or none. Mutated sources ask at each place that has a mutant.
#pragma once

#include <cstdint>
#include <type_traits>

namespace shardproof::mutants {

/// Is it the one that the environment variable SHARDPROOF_MUTANT names, eight hexadecimal digits? Where SHARDPROOF_MUTANTS_REACHED names a
/// file, every mutant that is asked for is added to it once, as a line.
bool is_chosen(std::uint32_t mutant);

/// Constants are computed by the compiler, where none is active.
constexpr bool active(std::uint32_t mutant) { return !std::is_constant_evaluated() && is_chosen(mutant); }

}  // namespace shardproof::mutants

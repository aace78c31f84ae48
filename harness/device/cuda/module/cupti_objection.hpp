// Explains to the user why a module cannot use the CUPTI that it found. It only makes text.
#pragma once

#include <cstdint>
#include <string>

namespace shardproof::device::cuda {

/// The facts about the library that was found.
struct CuptiState {
  std::string name;         ///< The name that the loader looked for.
  std::string loader_says;  ///< Why it could not be loaded; empty: it was loaded.
  std::string lacks;        ///< The first function that it lacks; empty: none.
  std::uint32_t version = 0;     ///< From cuptiGetVersion; 0: unknown.
  std::uint32_t built_with = 0;  ///< The version of the header.
};

/// Returns what is wrong, what was found, and what to do; empty if the library can be used. A library that is newer
/// than the header can be used, because newer versions only add to records.
std::string cupti_objection(const CuptiState& state);

}  // namespace shardproof::device::cuda

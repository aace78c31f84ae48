// Why the CUPTI that a module finds cannot be used by it, in words for whoever runs it. Nothing but text is made.
#pragma once

#include <cstdint>
#include <string>

namespace shardproof::cuda {

/// What was found of the library.
struct CuptiState {
  std::string name;         ///< that it was looked for by
  std::string loader_says;  ///< why it could not be loaded; empty: it was
  std::string lacks;        ///< the first function that it does not have; empty: none
  std::uint32_t version = 0;     ///< cuptiGetVersion's; 0: it does not say
  std::uint32_t built_with = 0;  ///< that of the header
};

/// What is wrong, what was found, and what to do; nothing where it can be used. One that is newer than the header can be: it only adds to
/// records.
std::string cupti_objection(const CuptiState& state);

}  // namespace shardproof::cuda

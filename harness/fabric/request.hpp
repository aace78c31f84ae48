// A rank's request to its group, and the result of the comparison of all requests. Both may travel as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "harness/protocol/collective.hpp"

namespace shardproof::fabric {

struct Request {
  Descriptor descriptor;
  std::int32_t to = -1, from = -1;
};

/// The result of the comparison by the rank that has all requests.
struct Verdict {
  static constexpr std::size_t longest_mismatch = 1536;  ///< bytes; a longer text is cut between characters
  std::int64_t latest_ready_ns = 0;
  std::string mismatch;  ///< empty: all requests are equal
};

}  // namespace shardproof::fabric

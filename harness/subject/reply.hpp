// How a call across the boundary between the suite and an engine answers: nothing throws there.
#pragma once

#include <string>
#include <vector>

namespace shardproof {

struct Reply {
  std::string error;  ///< empty: the call succeeded
  std::vector<std::string> warnings;
  bool ok() const { return error.empty(); }
};

}  // namespace shardproof

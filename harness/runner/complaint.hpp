// What a rank's program has to say when it cannot do what it was asked.
#pragma once

#include <cstdio>
#include <string>

namespace shardproof {

/// Where even that is lost, nobody can be told.
inline void complain(const std::string& text) {
  std::fputs((text + "\n").c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace shardproof

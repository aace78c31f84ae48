// Reports an error on standard error when a rank's program cannot do what it was asked.
#pragma once

#include <cstdio>
#include <string>

namespace shardproof::runner {

/// If standard error is lost, too, the program has no way left to report the error.
inline void complain(const std::string& text) {
  std::fputs((text + "\n").c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace shardproof::runner

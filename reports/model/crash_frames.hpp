// The functions that were running when a rank crashed. The launcher finds them (launcher/run/crash_frames.hpp), and
// export/crash_text.hpp writes them as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace shardproof::reports {

/// A function that was running. The next frame is its caller.
struct CrashFrame {
  std::uint64_t address = 0;
  std::uint64_t offset = 0;  ///< of the address in its module, for addr2line
  std::string function;  ///< Demangled. Empty: unknown.
  std::string file;  ///< Empty: there is no debug information.
  int line = 0;
  std::string module;  ///< The program or library. Empty: the address is in none.
  bool is_inlined = false;  ///< The compiler has put the function into its caller.
  bool is_guess = false;  ///< The stack has its return address, but it may be from an earlier call.
};

struct CrashFrames {
  std::vector<CrashFrame> frames;  ///< The function that crashed comes first.
  std::string why_no_more;  ///< Why there are no frames, or no more frames. Empty: the first function is reached.
};

}  // namespace shardproof::reports

// The text about the stack of a rank that crashed: the file `rank-N.crash`, and the part of it that terminals show.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/crash_record.hpp"

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

/// The whole file. Its first line says which signal came, and to which thread. Then each frame has a line. A line
/// separates the frames of the case's body from the frames of the harness below.
std::string crash_text(int rank, const protocol::CrashHeader& header, const CrashFrames& found);

/// The file of a rank without a stack. Its only line begins with `no stack: `.
std::string no_crash_text(std::string_view why);

/// Returns the part of a file's `text` that terminals show, indented: the first frames down to the case's body, or the
/// reason for a missing stack. Empty if the text is empty. `place` is the path of the file, or empty if the file is not
/// kept.
std::string crash_excerpt(int rank, std::string_view text, std::string_view place);

}  // namespace shardproof::reports

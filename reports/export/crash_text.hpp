// The text about the stack of a rank that crashed: the file `rank-N.crash`, and the part of it that terminals show.
// Pure.
#pragma once

#include <string>
#include <string_view>

#include "harness/protocol/crash_record.hpp"
#include "reports/model/crash_frames.hpp"

namespace shardproof::reports {

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

// Finds the functions that were running when a rank crashed, from the record that its handler left. Needs libdw of
// elfutils; without it at build time, every record has a reason in place of frames.
#pragma once

#include "harness/protocol/crash_record.hpp"
#include "reports/model/crash_frames.hpp"

namespace shardproof::launcher {

/// Reads programs, libraries and debug information from disk, which takes a while. libdw trusts these files, so call it
/// in a process that may crash.
reports::CrashFrames find_crash_frames(const protocol::CrashRecord& record);

}  // namespace shardproof::launcher

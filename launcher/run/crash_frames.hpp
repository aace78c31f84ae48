// Finds the functions that were running when a rank crashed, from the record that its handler left. Needs libdw of
// elfutils; without it at build time, every record has a reason in place of frames.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/protocol/crash_record.hpp"
#include "reports/model/crash_frames.hpp"

namespace shardproof::launcher {

/// Finds the frames of several records, such as those of a world. Ranks often crash in the same functions: it looks for
/// the name and the lines of each function once.
class CrashFrameFinder {
 public:
  /// Reads programs, libraries and debug information from disk, which takes a while. libdw trusts these files, so call
  /// it in a process that may crash.
  reports::CrashFrames find(const protocol::CrashRecord& record);

  /// By the file of a program or library, and the offset in it.
  using NamedFrames = std::map<std::pair<std::string, std::uint64_t>, std::vector<reports::CrashFrame>>;

 private:
  NamedFrames named_;
};

}  // namespace shardproof::launcher

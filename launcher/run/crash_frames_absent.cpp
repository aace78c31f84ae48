#include "launcher/run/crash_frames.hpp"

namespace shardproof::launcher {

reports::CrashFrames find_crash_frames(const protocol::CrashRecord&) {
  return {.frames = {}, .why_no_more = "this shardproof was built without libdw (package libdw-dev)"};
}

}  // namespace shardproof::launcher

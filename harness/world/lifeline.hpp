// Ends a rank together with its launcher. Without a launcher, no program reads the rank's results.
#pragma once

#include <cstdint>

namespace shardproof::world {

/// Arranges that this process is killed when the launcher with this process id ends. If the launcher is the parent, the
/// kernel kills this process. If another process is between them (a profiler, a sanitizer's runner, a shell), a thread
/// of this process waits for the launcher's end. Throws std::runtime_error if the launcher has ended already.
///
/// Also permits the process `tracer`, and its children, to trace this process. 0: the launcher.
void tie_life_to(std::int64_t launcher, std::int64_t tracer = 0);

}  // namespace shardproof::world

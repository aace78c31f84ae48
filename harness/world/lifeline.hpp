// A rank must not outlive its launcher: nobody would ever look at what it does.
#pragma once

#include <cstdint>

namespace shardproof {

/// This process is killed when the launcher, of that process id, ends. The kernel sees to it where the launcher is the parent. Where
/// something stands between the two (a profiler, a sanitizer's runner, a shell), a thread of ours waits for the launcher's end instead.
/// Throws std::runtime_error when the launcher has ended already.
void tie_life_to(std::int64_t launcher);

}  // namespace shardproof

// The worker's program: the suites' texts, the engines and the faults. It is the only place that knows the harness, the
// suites, the engines and the faults.
#pragma once

#include "harness/runner/play/play_main.hpp"

namespace shardproof {

PlayProgram worker_program();

}  // namespace shardproof

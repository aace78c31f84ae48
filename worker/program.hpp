// What the worker brings: the suites' texts, the engines, the faults. The one place that knows the harness, the suites, the engines and the
// faults.
#pragma once

#include "harness/runner/rank_main.hpp"

namespace shardproof {

Program worker_program();

}  // namespace shardproof

// The scenarios that the extensions suite plays. What the numbers come from: clauses.md.
#pragma once

#include "harness/shardproof.hpp"

namespace shardproof::extensions {}  // namespace shardproof::extensions

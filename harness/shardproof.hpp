// All that a program of ranked tests needs. Link it to `shardproof::main`.
#pragma once

#include "harness/cases/ranked_test_case.hpp"
#include "harness/fabric/group.hpp"
#include "harness/tensor/tensor.hpp"
#include "harness/world/rank.hpp"

using shardproof::Rank;

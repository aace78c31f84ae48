#include "harness/protocol/world_plan.hpp"

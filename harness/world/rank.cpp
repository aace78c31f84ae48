#include "harness/world/rank.hpp"

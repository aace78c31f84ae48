#include "harness/protocol/ending.hpp"

#include "harness/protocol/trace.hpp"

#include "harness/trace/memory.hpp"

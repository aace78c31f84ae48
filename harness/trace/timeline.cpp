#include "harness/trace/timeline.hpp"

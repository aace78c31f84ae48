#include "harness/protocol/case_filter.hpp"

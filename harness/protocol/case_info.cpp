#include "harness/protocol/case_info.hpp"

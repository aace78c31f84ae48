#include "harness/faults/fault.hpp"

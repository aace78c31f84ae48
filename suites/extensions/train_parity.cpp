// Do parameters that are gathered by hooks train as one process computes?
#include "suites/checks/comparison.hpp"
#include "suites/extensions/scenarios.hpp"

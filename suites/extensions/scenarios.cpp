#include "suites/extensions/scenarios.hpp"

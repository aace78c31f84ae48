#include "harness/scenario/scenario.hpp"

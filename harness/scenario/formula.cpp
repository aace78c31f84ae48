#include "harness/scenario/formula.hpp"

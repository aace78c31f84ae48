#include "harness/scenario/run.hpp"

#include "harness/scenario/builder.hpp"

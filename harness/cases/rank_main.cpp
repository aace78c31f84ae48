#include "harness/cases/rank_main.hpp"

#include "harness/trace/races.hpp"

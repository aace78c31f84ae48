#include "harness/protocol/environment.hpp"

#include "harness/protocol/events.hpp"

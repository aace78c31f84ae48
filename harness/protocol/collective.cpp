#include "harness/protocol/collective.hpp"

#include "harness/fabric/group.hpp"

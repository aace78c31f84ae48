#include "harness/scenario/player.hpp"

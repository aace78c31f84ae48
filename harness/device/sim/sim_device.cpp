#include "harness/device/sim/sim_device.hpp"

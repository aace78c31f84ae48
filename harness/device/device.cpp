#include "harness/device/device.hpp"

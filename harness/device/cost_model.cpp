#include "harness/device/cost_model.hpp"

#include "harness/trace/order.hpp"

#include "reports/summary.hpp"

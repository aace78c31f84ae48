#include "reports/chrome_trace.hpp"

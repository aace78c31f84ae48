#include "reports/verdict.hpp"

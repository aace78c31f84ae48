#include "reports/diff.hpp"

#include "harness/cases/ranked_test_case.hpp"

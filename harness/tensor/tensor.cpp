#include "harness/tensor/tensor.hpp"

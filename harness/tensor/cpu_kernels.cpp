#include "harness/tensor/kernels.hpp"

#include "harness/fabric/shm/shm_fabric.hpp"

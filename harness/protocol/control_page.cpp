#include "harness/protocol/control_page.hpp"

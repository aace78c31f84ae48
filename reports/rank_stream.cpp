#include "reports/rank_stream.hpp"

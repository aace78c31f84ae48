// The engine of the kind `toy`, for the reference subject of a program.
#pragma once

#include "fixtures/engines/engine.hpp"

namespace shardproof::toy {

engines::Engine toy_engine();

}  // namespace shardproof::toy

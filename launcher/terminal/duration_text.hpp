// Durations in messages. World supervision and the questions to a worker use it.
#pragma once

#include <chrono>
#include <string>

namespace shardproof::launcher {

/// `0.5 s`
std::string seconds_text(std::chrono::milliseconds time);

}  // namespace shardproof::launcher

// A text that no other process can guess.
#pragma once

#include <string>

namespace shardproof::launcher {

/// 32 hexadecimal digits from the kernel's random numbers. Throws std::system_error.
std::string random_token();

}  // namespace shardproof::launcher

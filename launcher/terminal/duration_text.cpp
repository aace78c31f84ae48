#include "launcher/terminal/duration_text.hpp"

#include <fmt/format.h>

namespace shardproof::launcher {

std::string seconds_text(std::chrono::milliseconds time) {
  return fmt::format("{} s", static_cast<double>(time.count()) / 1000.0);
}

}  // namespace shardproof::launcher

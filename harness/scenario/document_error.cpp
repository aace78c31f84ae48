#include "harness/scenario/document_error.hpp"

#include <fmt/format.h>

namespace shardproof::scenario {

std::string DocumentError::in_file(const std::string& file) const {
  if (!position_) return fmt::format("{}: {}", file, what());
  return fmt::format("{}:{}:{}: {}", file, position_->line, position_->column, what());
}

}  // namespace shardproof::scenario

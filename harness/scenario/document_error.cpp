#include "harness/scenario/document_error.hpp"

#include <fmt/format.h>

namespace shardproof::scenario {

std::string DocumentError::in_file(const std::string& file) const {
  const std::string fix = fix_.empty() ? "" : fix_ + ": ";
  if (!position_) return fmt::format("{}{}: {}", fix, file, what());
  return fmt::format("{}{}:{}:{}: {}", fix, file, position_->line, position_->column, what());
}

}  // namespace shardproof::scenario

#include "harness/world/case_service.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace shardproof::world {

std::string CaseService::missing(const protocol::CaseInfo& info) const {
  if (info.engine.empty() && info.needs.empty()) return {};
  const std::string wanted = info.engine.empty() ? fmt::format("{}", fmt::join(info.needs, ", "))
                                                 : fmt::format("the engine kind {}", info.engine);
  return fmt::format("the program has no subject that could claim {}", wanted);
}

}  // namespace shardproof::world

#include "harness/cases/case_table.hpp"

#include <fmt/format.h>

#include <optional>
#include <set>

#include "harness/base/digest.hpp"

namespace shardproof::cases {

CaseTable::CaseTable(std::span<const BoundCase> cases) : cases_(cases) {
  std::string ids;
  for (const BoundCase& bound : cases) {
    by_id_.emplace(bound.info.id, &bound);
    (ids += bound.info.id) += '\n';
  }
  digest_ = fmt::format("{} ({:016x})", cases.size(), base::digest(ids));
}

const BoundCase* CaseTable::find(std::string_view id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::vector<BoundCase> drawn_cases(const CaseTable& table, std::span<const std::string> ids) {
  std::vector<BoundCase> drawn;
  std::set<std::string_view> seen;
  for (const std::string& id : ids) {
    if (table.find(id) != nullptr || !seen.insert(id).second) continue;
    for (const BoundCase& like : table.cases()) {
      const auto number = like.info.drawn_by.empty() ? std::nullopt : protocol::drawn_number(like.info, id);
      if (!number) continue;
      BoundCase& made = drawn.emplace_back(like);
      made.info = protocol::drawn_case(like.info, *number);
      break;
    }
  }
  return drawn;
}

}  // namespace shardproof::cases

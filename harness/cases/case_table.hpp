// All cases of a program, by their ids.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/cases/bound_case.hpp"

namespace shardproof::cases {

/// Borrows the cases.
class CaseTable {
 public:
  explicit CaseTable(std::span<const BoundCase> cases);

  std::span<const BoundCase> cases() const { return cases_; }
  /// nullptr: no case has this id.
  const BoundCase* find(std::string_view id) const;
  /// The number of cases, and a hash of their ids in order: `901 (0123456789abcdef)`. Equal on ranks of one program.
  const std::string& digest() const { return digest_; }

 private:
  std::span<const BoundCase> cases_;
  std::unordered_map<std::string_view, const BoundCase*> by_id_;
  std::string digest_;
};

/// The cases with these ids that are not in the table, each once. Each equals a case of the table, except for the
/// number that draws the scenario.
std::vector<BoundCase> drawn_cases(const CaseTable& table, std::span<const std::string> ids);

}  // namespace shardproof::cases

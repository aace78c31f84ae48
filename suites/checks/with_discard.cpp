#include "suites/checks/with_discard.hpp"

#include <array>
#include <catch2/catch_message.hpp>

namespace shardproof::suites {

void also_with_discard(const Rank& rank, const scenario::Scenario& scenario, const std::function<void(const scenario::Scenario&)>& judge) {
  judge(scenario);
  if (!rank.lacking(std::array{Feature::module_groups}).empty()) return;
  scenario::Scenario more = scenario;
  more.model.root.children.push_back(
      {.name = "discard", .kind = scenario::ModuleKind::discard, .children = {{.name = "relu", .kind = scenario::ModuleKind::relu}}});
  INFO("with a last module whose output is discarded");
  judge(more);
}

}  // namespace shardproof::suites

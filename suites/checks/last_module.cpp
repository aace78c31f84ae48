#include "suites/checks/last_module.hpp"

namespace shardproof::suites {

Scenario with_last_module(const Rank& rank, Scenario scenario) {
  if (rank.find_param("last_module") == nullptr) return scenario;
  REQUIRE(scenario.model.root.kind == ModuleKind::sequential);
  Module residual{
      .name = "residual", .kind = ModuleKind::residual, .children = {{.name = "relu", .kind = ModuleKind::relu}}};
  scenario.model.root.children.push_back(
      {.name = "discarded", .kind = ModuleKind::discard, .children = {std::move(residual)}});
  return scenario;
}

}  // namespace shardproof::suites

#include "tests/toy_engine/plan.hpp"

#include <memory>
#include <nlohmann/json.hpp>

#include "harness/scenario/document.hpp"
#include "harness/scenario/refusal.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof::toy {

namespace {

std::unique_ptr<EngineSection> read(const scenario::Node& node) {
  node.expect_keys({"bucket"});
  auto plan = std::make_unique<ToyPlan>();
  if (const auto bucket = node.find("bucket")) plan->bucket = bucket->nonempty_text();
  return plan;
}

const EngineKindRegistration registration({.name = ToyPlan::name, .read = read, .own_features = ToyFeature::all});

}  // namespace

nlohmann::ordered_json ToyPlan::to_json() const {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (bucket != ToyPlan().bucket) json["bucket"] = bucket;
  return json;
}

void ToyPlan::validate(const Scenario& scenario) const {
  if (scenario.plan.mesh.shape.size() > 1) scenario::fail("plan.mesh", "one dimension: a toy engine shards nothing");
  if (scenario.plan.mixed_precision != MixedPrecision())
    scenario::fail("plan.mixed_precision", "none: a toy engine computes in f32");
}

}  // namespace shardproof::toy

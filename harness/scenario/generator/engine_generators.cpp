#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/scenario/generator/engine_generator.hpp"
#include "harness/scenario/generator/fully_shard.hpp"

namespace shardproof::scenario {

const std::vector<const EngineGenerator*>& engine_generators() {
  static const std::vector<const EngineGenerator*> all{&fully_shard_generator()};
  return all;
}

const EngineGenerator& drawn_engine() { return *engine_generators().front(); }  // the only kind

const EngineGenerator& engine_generator(const Plan& plan) {
  const auto found = std::ranges::find(engine_generators(), plan.engine.kind(), &EngineGenerator::kind);
  if (found == engine_generators().end())
    throw std::invalid_argument(fmt::format("scenario: no plan can be drawn for the engine kind \"{}\"", plan.engine.kind()));
  return **found;
}

}  // namespace shardproof::scenario

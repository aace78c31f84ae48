#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "harness/scenario/generator/engine_generator.hpp"
#include "harness/scenario/generator/flat_shard.hpp"
#include "harness/scenario/generator/fully_shard.hpp"
#include "harness/scenario/generator/replicate.hpp"

namespace shardproof::scenario {

const std::vector<const EngineGenerator*>& engine_generators() {
  static const std::vector<const EngineGenerator*> all{&fully_shard_generator(), &flat_shard_generator(),
                                                       &replicate_generator()};
  return all;
}

std::vector<std::string_view> drawn_kinds() {
  std::vector<std::string_view> kinds;
  std::ranges::transform(engine_generators(), std::back_inserter(kinds), &EngineGenerator::kind);
  return kinds;
}

const EngineGenerator& engine_generator(std::string_view kind) {
  const auto found = std::ranges::find(engine_generators(), kind, &EngineGenerator::kind);
  if (found == engine_generators().end())
    throw std::invalid_argument(fmt::format("scenario: no plan can be drawn for the engine kind \"{}\"; there is {}",
                                            kind, fmt::join(drawn_kinds(), ", ")));
  return **found;
}

const EngineGenerator& engine_generator(const Plan& plan) { return engine_generator(plan.engine.kind()); }

}  // namespace shardproof::scenario

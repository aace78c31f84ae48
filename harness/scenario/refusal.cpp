#include "harness/scenario/refusal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

namespace shardproof::scenario {

void fail(const std::string& place, const std::string& expected) {
  throw std::invalid_argument(fmt::format("scenario: {}: {}", place, expected));
}

std::string place_of(const std::string& path) { return fmt::format("model, module \"{}\"", path); }

void require_module(const Model& model, const std::string& path, const std::string& place) {
  if (find(model, path) == nullptr) fail(place, fmt::format("the model has no module \"{}\"", path));
}

void require_parameter(const std::vector<ParameterShape>& all, const std::string& name, const std::string& place) {
  if (std::ranges::find(all, name, &ParameterShape::name) != all.end()) return;
  for (const ParameterShape& parameter : all) {
    if (std::ranges::find(parameter.aliases, name) != parameter.aliases.end())
      fail(place, fmt::format("\"{}\" is tied to \"{}\": name that", name, parameter.name));
  }
  fail(place, fmt::format("the model has no parameter \"{}\"", name));
}

void refuse_imagined(const std::string& what) {
  fail("costs, imagined_ranks", fmt::format("{}: the other ranks of its groups cannot be imagined", what));
}

}  // namespace shardproof::scenario

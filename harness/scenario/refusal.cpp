#include "harness/scenario/refusal.hpp"

#include <fmt/format.h>

#include <stdexcept>

namespace shardproof::scenario {

void fail(const std::string& place, const std::string& expected) {
  throw std::invalid_argument(fmt::format("scenario: {}: {}", place, expected));
}

std::string place_of(const std::string& path) { return fmt::format("model, module \"{}\"", path); }

void require_module(const Model& model, const std::string& path, const std::string& place) {
  if (find(model, path) == nullptr) fail(place, fmt::format("the model has no module \"{}\"", path));
}

}  // namespace shardproof::scenario

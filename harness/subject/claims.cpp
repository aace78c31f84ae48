#include "harness/subject/claims.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace shardproof {

namespace {

std::vector<std::string> missing(const Claims::Kind& kind, std::span<const std::string> needs) {
  std::vector<std::string> names(needs.begin(), needs.end());
  std::erase_if(names, [&](const std::string& name) {
    return std::ranges::find(kind.features, name, &Feature::name) != kind.features.end();
  });
  return names;
}

}  // namespace

Claims::Claims(std::initializer_list<Kind> kinds) {
  for (const Kind& kind : kinds) add(kind);
}

void Claims::add(Kind kind) {
  if (kind.name.empty()) throw std::invalid_argument("it claims an engine kind without a name");
  if (plays(kind.name)) throw std::invalid_argument(fmt::format("it claims the engine kind \"{}\" twice", kind.name));
  kinds_.push_back(std::move(kind));
}

const Claims::Kind* Claims::find(std::string_view kind) const {
  const auto found = std::ranges::find(kinds_, kind, &Kind::name);
  return found == kinds_.end() ? nullptr : &*found;
}

bool Claims::has(std::string_view kind, Feature feature) const {
  const Kind* const claimed = find(kind);
  return claimed != nullptr && claimed->features.contains(feature);
}

std::string Claims::lacking(std::string_view kind, std::span<const std::string> needs) const {
  const Kind* nearest = find(kind);
  if (nearest == nullptr && !kind.empty()) return fmt::format("the engine kind {}", kind);
  if (nearest == nullptr) {
    const auto least =
        std::ranges::min_element(kinds_, {}, [&](const Kind& claimed) { return missing(claimed, needs).size(); });
    if (least == kinds_.end()) return fmt::format("{}", fmt::join(needs, ", "));
    nearest = &*least;
  }
  const std::vector<std::string> names = missing(*nearest, needs);
  if (names.empty()) return {};
  const std::string text = fmt::format("{}", fmt::join(names, ", "));
  // Another kind of it may have these.
  return kinds_.size() == 1 ? text : fmt::format("{} for the engine kind {}", text, nearest->name);
}

}  // namespace shardproof

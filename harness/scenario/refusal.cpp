#include "harness/scenario/refusal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/base/closest.hpp"
#include "harness/base/json_fields.hpp"
#include "harness/scenario/document_error.hpp"

namespace shardproof::scenario {

namespace {

// The key itself, or in quotes if it could be misread.
std::string shown_key(std::string_view key) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !key.empty() && std::ranges::all_of(key, is_plain) ? std::string(key) : base::shown(std::string(key));
}

}  // namespace

void fail(const std::string& place, const std::string& expected) { throw DocumentError(place, expected); }

std::string member_place(const std::string& place, std::string_view key) {
  return place.empty() ? shown_key(key) : fmt::format("{}.{}", place, shown_key(key));
}

std::string place_of(const Model& model, const std::string& path) {
  std::string place = "model.root";
  const Module* at = &model.root;
  std::string here;
  while (here != path) {
    const auto next = std::ranges::find_if(
        at->children, [&](const Module& child) { return is_at_or_under(path, child_path(here, child.name)); });
    if (next == at->children.end()) break;
    place += fmt::format(".children[{}]", next - at->children.begin());
    here = child_path(here, next->name);
    at = &*next;
  }
  return path.empty() ? place : fmt::format("{} (\"{}\")", place, path);
}

std::string no_such_module(const Model& model, const std::string& path) {
  const std::vector<std::string> all = paths(model);
  return fmt::format("the model has no module \"{}\"; {}", path, base::closest_or_all({all.begin(), all.end()}, path));
}

void require_module(const Model& model, const std::string& path, const std::string& place) {
  if (find(model, path) == nullptr) fail(place, no_such_module(model, path));
}

void require_parameter(const std::vector<ParameterShape>& all, const std::string& name, const std::string& place) {
  if (std::ranges::find(all, name, &ParameterShape::name) != all.end()) return;
  std::set<std::string> names;
  for (const ParameterShape& parameter : all) {
    if (std::ranges::find(parameter.aliases, name) != parameter.aliases.end())
      fail(place, fmt::format("\"{}\" is tied to \"{}\": name that", name, parameter.name));
    names.insert(parameter.name);
  }
  fail(place, fmt::format("the model has no parameter \"{}\"; {}", name, base::closest_or_all(names, name)));
}

void refuse_imagined(const std::string& what) {
  fail("costs.imagined_ranks", fmt::format("{}: the other ranks of its groups cannot be imagined", what));
}

}  // namespace shardproof::scenario

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "reports/model/report.hpp"

namespace shardproof::reports {

using nlohmann::ordered_json;

namespace {

constexpr std::array<std::string_view, 15> volatile_places{
    "run/id",
    "run/started",
    "run/argv",
    "run/environment",
    "run/git_commit",
    "machine",
    "subject/warnings",  // not all ranks are copies of a warm process
    "worlds/*/number",  // simultaneous worlds begin when others end
    "worlds/*/hosts",  // a scheduler chooses them
    "worlds/*/environment",  // depends on which GPU is free first
    "worlds/*/endings",  // when a rank dies, some of the other ranks are stopped before they leave
    "worlds/*/explanation",  // contains waiting times of ranks
    "worlds/*/nccl",  // the last calls of ranks that were ended
    "cases/*/duration_ns",
    "cases/*/failures/*/monotonic_ns"};

ordered_json* find(ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

void drop(ordered_json& json, std::string_view place) {
  const auto slash = place.find('/');
  const auto step = place.substr(0, slash);
  const bool is_last = slash == std::string_view::npos;
  if (step == "*") {
    if (!json.is_array()) return;
    for (auto& element : json) drop(element, place.substr(slash + 1));
    return;
  }
  const std::string key(step);
  if (!json.is_object() || !json.contains(key)) return;
  if (is_last) {
    json.erase(key);
  } else {
    drop(json[key], place.substr(slash + 1));
  }
}

}  // namespace

std::span<const std::string_view> volatile_fields() { return volatile_places; }

ordered_json stable_part(const ordered_json& report) {
  auto stable = report;
  for (const auto place : volatile_places) drop(stable, place);
  if (!stable.is_object() || !stable.contains("cases")) return stable;
  for (auto& result : stable["cases"]) {
    if (auto* failures = find(result, "failures")) {
      std::ranges::stable_sort(failures->get_ref<ordered_json::array_t&>(), {},
                               [](const ordered_json& failure) { return failure.at("rank").get<int>(); });
    }
    const auto* world = find(result, "world");
    auto* measurements = find(result, "measurements");
    if (!world || !measurements) continue;
    const auto device = stable.at("worlds").at(world->get<std::size_t>()).at("device").get<std::string>();
    for (auto it = measurements->begin(); it != measurements->end();) {
      it = is_exact(device, it->at("unit").get<std::string>()) ? std::next(it) : measurements->erase(it);
    }
  }
  return stable;
}

}  // namespace shardproof::reports

#include "harness/scenario/scenario_json.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "harness/base/json_parse.hpp"
#include "harness/base/json_position.hpp"
#include "harness/base/json_text.hpp"
#include "harness/control/control_plane.hpp"
#include "harness/scenario/document_error.hpp"
#include "harness/scenario/parts_json.hpp"
#include "harness/scenario/validate_script.hpp"

namespace shardproof {

namespace {

using Json = nlohmann::ordered_json;

/// Reads the parts without a validation of the whole.
Scenario read_parts(const Json& json, scenario::CallPlaces& places) {
  const scenario::Node node(json, "");
  node.expect_keys({"version", "world_size", "model", "plan", "script", "costs"});
  const auto version = node.find("version");
  const bool is_old = !version || version->integer(1, scenario::scenario_version) == 1;
  Scenario read{.model = read_model(node.at("model")),
                .plan = is_old ? scenario::read_plan_of_version_1(node.at("plan")) : read_plan(node.at("plan")),
                .script = read_script(node.at("script"), places)};
  if (const auto size = node.find("world_size"))
    read.world_size = static_cast<int>(size->integer(1, control::ControlPlane::max_world_size));
  if (const auto costs = node.find("costs")) read_costs(*costs, read.costs, read.device);
  return read;
}

/// The place in the document of a place in the script that was read: `script.segments[0].body[5].ranks` may be
/// `script.segments[0].body[1].body[1].ranks` there.
std::string place_in_document(const std::string& place, const scenario::CallPlaces& places) {
  for (std::size_t segment = 0; segment < places.size(); ++segment) {
    for (std::size_t call = 0; call < places[segment].size(); ++call) {
      const std::string read = fmt::format("script.segments[{}].body[{}]", segment, call);
      if (place.starts_with(read)) return places[segment][call] + place.substr(read.size());
    }
  }
  return place;
}

/// Chooses the size of the world that has to play a scenario. Nullopt: any size.
using ChooseSize = std::function<std::optional<int>(const Scenario&)>;

/// Reads and validates a document.
Scenario read_whole(const Json& json, const ChooseSize& choose) {
  scenario::CallPlaces places;
  Scenario read = read_parts(json, places);
  try {
    const std::optional<int> world_size = choose(read);
    if (world_size) scenario::require_world_size(read, *world_size);
    validate(read);
    if (world_size) scenario::validate_script_in_world(read, *world_size);
  } catch (const scenario::DocumentError& error) {
    throw error.at(place_in_document(error.place(), places));
  }
  return read;
}

}  // namespace

void to_json(Json& json, const Scenario& scenario) {
  json = Json{{"version", scenario::scenario_version}};
  if (scenario.world_size) json["world_size"] = *scenario.world_size;
  json["model"] = scenario::write_model(scenario.model);
  json["plan"] = scenario::write_plan(scenario.plan);
  json["script"] = scenario::write_script(scenario.script);
  if (Json costs = scenario::write_costs(scenario.costs, scenario.device); !costs.empty())
    json["costs"] = std::move(costs);
}

void from_json(const Json& json, Scenario& scenario) {
  scenario = read_whole(json, [](const Scenario&) { return std::nullopt; });
}

namespace {

Scenario parse(std::string_view text, const ChooseSize& choose) {
  try {
    return read_whole(base::parse_json(text), choose);
  } catch (const base::DuplicateKey& error) {
    const scenario::DocumentError twice(
        "", fmt::format("duplicate key {}: remove one of the two", base::dump_line(error.key())));
    const auto byte = base::find_duplicate_key(text);
    throw byte ? twice.in(base::position_at(text, *byte)) : twice;
  } catch (const scenario::DocumentError& error) {
    if (error.position()) throw;
    throw error.in(base::position_at(text, base::find_place(text, error.place())));
  } catch (const Json::exception& error) {  // also for a number that no double can hold
    std::string_view why = error.what();
    // The library begins the text with its own name of the error in brackets, and with line and column.
    if (const std::size_t name_end = why.find("] "); name_end != std::string_view::npos)
      why.remove_prefix(name_end + 2);
    const auto* const syntax = dynamic_cast<const Json::parse_error*>(&error);
    if (syntax == nullptr) throw scenario::DocumentError("", fmt::format("invalid JSON: {}", why));
    if (const std::size_t place_end = why.find(": ");
        why.starts_with("parse error") && place_end != std::string_view::npos)
      why.remove_prefix(place_end + 2);
    // The library counts bytes from 1, up to the last byte that it has read.
    throw scenario::DocumentError("", fmt::format("invalid JSON: {}", why))
        .in(base::position_at(text, syntax->byte == 0 ? 0 : syntax->byte - 1));
  }
}

}  // namespace

Scenario parse_scenario(std::string_view text, std::optional<int> world_size) {
  return parse(text, [&](const Scenario&) { return world_size; });
}

Scenario parse_playable_scenario(std::string_view text, std::optional<int> ranks) {
  std::optional<int> size;
  Scenario read = parse(text, [&](const Scenario& found) {
    return size = ranks.value_or(found.world_size.value_or(default_world_size));
  });
  read.world_size = size;
  return read;
}

base::TextPosition scenario::position_of_call(std::string_view text, const std::optional<ScriptPlace>& call) {
  std::string place = "plan";
  if (call) {
    CallPlaces places;
    const Json json = base::parse_json(text);
    read_script(Node(json, "").at("script"), places);
    place = places.at(call->segment).at(call->call);
  }
  return base::position_at(text, base::find_place(text, place));
}

}  // namespace shardproof

#include "harness/scenario/scenario_json.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>
#include <utility>

#include "harness/base/json_parse.hpp"
#include "harness/base/unique_keys.hpp"
#include "harness/scenario/parts_json.hpp"
#include "harness/scenario/validate_script.hpp"

namespace shardproof {

namespace {

using Json = nlohmann::ordered_json;

/// Reads the parts without a validation of the whole.
Scenario read_parts(const Json& json) {
  const scenario::Node node(json, "");
  node.expect_keys({"version", "model", "plan", "script", "costs"});
  const auto version = node.find("version");
  const bool is_old = !version || version->integer(1, scenario::scenario_version) == 1;
  Scenario read{.model = read_model(node.at("model")),
                .plan = is_old ? scenario::read_plan_of_version_1(node.at("plan")) : read_plan(node.at("plan")),
                .script = read_script(node.at("script"))};
  if (const auto costs = node.find("costs")) read_costs(*costs, read.costs, read.device);
  return read;
}

}  // namespace

void to_json(Json& json, const Scenario& scenario) {
  json = Json{{"version", scenario::scenario_version},
              {"model", scenario::write_model(scenario.model)},
              {"plan", scenario::write_plan(scenario.plan)},
              {"script", scenario::write_script(scenario.script)}};
  if (Json costs = scenario::write_costs(scenario.costs, scenario.device); !costs.empty())
    json["costs"] = std::move(costs);
}

void from_json(const Json& json, Scenario& scenario) {
  Scenario read = read_parts(json);
  validate(read);
  scenario = std::move(read);
}

Scenario parse_scenario(std::string_view text, std::optional<int> world_size) {
  try {
    Scenario read = read_parts(base::parse_json(text, base::UniqueKeys("scenario: ")));
    if (world_size) scenario::require_ranks_in_world(read.script, *world_size);
    validate(read);
    return read;
  } catch (const Json::exception& error) {  // also for a number that no double can hold
    std::string_view why = error.what();
    // The library begins the text with its own name of the error in brackets.
    if (const std::size_t name_end = why.find("] "); name_end != std::string_view::npos)
      why.remove_prefix(name_end + 2);
    throw std::invalid_argument(fmt::format("scenario: no JSON: {}", why));
  }
}

}  // namespace shardproof

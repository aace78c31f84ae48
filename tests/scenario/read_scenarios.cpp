// Reads one scenario from each line. For each it prints a line: nothing, or the reason why the reader refuses it. If
// each part of the document can be read, the reason begins with `of the whole: `.
#include <iostream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

#include "harness/scenario/parts_json.hpp"
#include "harness/scenario/scenario_json.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

bool has_readable_parts(const std::string& line) {
  const nlohmann::ordered_json json = nlohmann::ordered_json::parse(line, nullptr, false);
  const Node document(json, "");
  try {
    read_model(document.at("model"));
    read_plan(document.at("plan"));
    CallPlaces places;
    read_script(document.at("script"), places);
    Scenario read;
    if (document.has("costs")) read_costs(document.at("costs"), read.costs, read.device);
    if (document.has("world_size")) document.at("world_size").integer(1, most_ranks);
    document.expect_keys({"version", "world_size", "model", "plan", "script", "costs"});
    return document.at("version").integer(1, scenario_version) == scenario_version;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    try {
      parse_scenario(line);
    } catch (const std::invalid_argument& refusal) {
      std::cout << (has_readable_parts(line) ? "of the whole: " : "") << refusal.what();
    }
    std::cout << '\n';
  }
}

#include "harness/cases/scenario_answers.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/cases/play_case.hpp"
#include "harness/protocol/json_text.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "harness/scenario/generator/shrinker.hpp"
#include "harness/scenario/scenario_json.hpp"

namespace shardproof {

void make_scenarios(const ScenariosAsked& asked) {
  const scenario::Palette palette = scenario::palette(asked.features, asked.left_out);
  for (std::uint64_t i = 0; i < asked.count; ++i) {
    const std::uint64_t seed = asked.first_seed + i;
    const scenario::Staged made = scenario::generate(seed, asked.ranks, palette);
    fmt::print("{}\n", dump_line({{"seed", seed}, {"ranks", made.ranks}, {"scenario", made.scenario}}));
  }
}

void shrink_scenario(const std::filesystem::path& document, int ranks) {
  for (const scenario::Staged& smaller : scenario::smaller({.scenario = read_scenario(document), .ranks = ranks}))
    fmt::print("{}\n", dump_line({{"ranks", smaller.ranks}, {"scenario", smaller.scenario}}));
}

}  // namespace shardproof

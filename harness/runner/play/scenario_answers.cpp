#include "harness/runner/play/scenario_answers.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/base/json_text.hpp"
#include "harness/device/cuda/gpu_listing.hpp"
#include "harness/device/cuda/vendor_module.hpp"
#include "harness/protocol/ending.hpp"
#include "harness/runner/complaint.hpp"
#include "harness/runner/play/scenario_document.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "harness/scenario/generator/shrinker.hpp"
#include "harness/scenario/scenario_json.hpp"

namespace shardproof::runner {

using protocol::rank_left;
using protocol::rank_usage;

namespace {

void make_scenarios(const ScenariosAsked& asked) {
  const std::string_view kind = asked.engine.empty() ? scenario::drawn_kinds().front() : std::string_view(asked.engine);
  const scenario::Palette palette = scenario::palette(kind, asked.features, asked.left_out);
  for (std::uint64_t i = 0; i < asked.count; ++i) {
    const std::uint64_t seed = asked.first_seed + i;
    const scenario::Staged made = scenario::generate(kind, seed, asked.ranks, palette);
    fmt::print("{}\n", base::dump_line({{"seed", seed}, {"ranks", made.ranks}, {"scenario", made.scenario}}));
  }
}

void shrink_scenario(const std::filesystem::path& document, int ranks) {
  for (const scenario::Staged& smaller : scenario::smaller({.scenario = read_scenario(document), .ranks = ranks}))
    fmt::print("{}\n", base::dump_line({{"ranks", smaller.ranks}, {"scenario", smaller.scenario}}));
}

protocol::GpuListing gpus_of(const std::filesystem::path& backend) {
  try {
    return device::cuda::list_gpus(device::cuda::load_vendor(backend));
  } catch (const std::exception& error) {
    return {.why_none = error.what()};
  }
}

}  // namespace

int answer_about(const std::filesystem::path& scenario, std::optional<int> ranks) {
  try {
    const Scenario playable = ScenarioDocument(scenario).playable_scenario(ranks);
    fmt::print("{}\n", base::dump_line({{"ranks", playable.world_size.value()}}));
  } catch (const std::invalid_argument& error) {
    complain(error.what());
    return rank_usage;
  }
  return std::fflush(stdout) == 0 ? rank_left : rank_usage;
}

int answer_with_gpus(const std::filesystem::path& backend) {
  fmt::print("{}\n", base::dump_line(gpus_of(backend)));
  return std::fflush(stdout) == 0 ? rank_left : rank_usage;
}

int answer_with_scenarios(const ScenariosAsked& asked) {
  try {
    make_scenarios(asked);
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
  return std::fflush(stdout) == 0 ? rank_left : rank_usage;
}

int answer_with_smaller(const std::filesystem::path& scenario, int ranks) {
  try {
    shrink_scenario(scenario, ranks);
  } catch (const std::invalid_argument& error) {
    complain(error.what());
    return rank_usage;
  }
  return std::fflush(stdout) == 0 ? rank_left : rank_usage;
}

}  // namespace shardproof::runner

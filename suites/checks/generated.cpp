#include "suites/checks/generated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <stdexcept>
#include <string>

#include "fixtures/oracles/difference.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "harness/protocol/digest.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "suites/checks/fabric.hpp"
#include "suites/checks/kind.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"

namespace shardproof::suites {

namespace {

using oracles::Arithmetic;
using oracles::NamedValues;
using oracles::SerialIteration;
using scenario::Scenario;

constexpr int most_draws = 20'000;
constexpr std::size_t least_features = 3;
// Far above rounding in single precision, and far below a gradient that is lost, counted twice or divided wrongly.
constexpr Tolerance rounded_somewhere{.loss = 1e-3, .gradient = 1e-3, .parameter = 1e-3, .zeros = Zeros::are_equal};
constexpr double largest_value = 256;

bool is_low(std::optional<DType> dtype) { return dtype && *dtype != DType::f32; }

// In low precision a last bit is large, and may change where an order of sums does.
bool rounds_to_low_precision(const Scenario& scenario) {
  const scenario::MixedPrecision& mixed = scenario.plan.mixed_precision;
  if (is_low(mixed.param) || is_low(mixed.reduce) || is_low(mixed.output)) return true;
  if (keeps_low_precision(scenario)) return true;
  return any_call(scenario.script, [](const scenario::Action& action) {
    return registers_compression(action) || (action.extension && action.extension->kind != scenario::ExtensionKind::components);
  });
}

double largest(const std::vector<NamedValues>& all) {
  double most = 0;
  for (const NamedValues& values : all) {
    for (const double value : values.values) most = std::max(most, std::abs(value));
    for (const auto& own : values.local) {
      for (const double value : own) most = std::max(most, std::abs(value));
    }
  }
  return most;
}

// A pair of two equal tensors, or values that never move, would hide a mistake.
bool shows_training(const Scenario& scenario, const std::vector<SerialIteration>& captures) {
  const auto shows_gradient = [](const SerialIteration& capture) { return largest(capture.gradients) > 0; };
  if (!std::ranges::any_of(captures, shows_gradient)) return false;
  bool moves = false;
  for (const SerialIteration& capture : captures) {
    for (std::size_t p = 0; p < capture.parameters.size(); ++p) {
      const Tensor now = capture.parameters[p].tensor();
      if (now == capture.seconds[p].tensor()) return false;
      moves = moves || now != formula::tensor(static_cast<std::uint32_t>(1 + p), now.shape(), scenario.model.init_divisor);
    }
  }
  return moves;
}

// How much less than the tolerance the values of two arithmetics differ.
bool has_room(const std::vector<SerialIteration>& single, const std::vector<SerialIteration>& precise, int world) {
  constexpr double room = 16;
  const auto differ = [&](const std::vector<NamedValues>& all, const std::vector<NamedValues>& others, double tolerance) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].defined() != others[i].defined()) return true;
      for (int rank = 0; rank < world && all[i].defined(); ++rank) {
        const Tensor mine = all[i].tensor(rank), other = others[i].tensor(rank);
        if (mine.defined() && !(room * oracles::largest_difference(mine, other) <= tolerance)) return true;
      }
    }
    return false;
  };
  for (std::size_t i = 0; i < single.size(); ++i) {
    const SerialIteration &one = single[i], &other = precise[i];
    for (std::size_t rank = 0; rank < one.losses.size(); ++rank) {
      if (!(room * std::abs(one.losses[rank] - other.losses[rank]) <= rounded_somewhere.loss)) return false;
    }
    if (largest(other.gradients) > largest_value || largest(other.parameters) > largest_value) return false;
    if (differ(one.gradients, other.gradients, rounded_somewhere.gradient)) return false;
    if (differ(one.parameters, other.parameters, rounded_somewhere.parameter)) return false;
    if (differ(one.seconds, other.seconds, rounded_somewhere.parameter)) return false;
  }
  return true;
}

// None: the serial model cannot judge the values.
std::optional<Tolerance> tolerance_of(const Scenario& scenario, int world) {
  const std::vector<SerialIteration> single = oracles::train_serially(scenario, world, Arithmetic::f32);
  if (single.empty() || !shows_training(scenario, single)) return std::nullopt;
  if (single.back().order_shows.empty()) return equal_values;
  if (rounds_to_low_precision(scenario) || !has_room(single, oracles::train_serially(scenario, world, Arithmetic::f64), world))
    return std::nullopt;
  Tolerance tolerance = rounded_somewhere;
  tolerance.exact = static_cast<std::size_t>(std::ranges::count_if(single, &std::string::empty, &SerialIteration::order_shows));
  return tolerance;
}

void check_communication(Rank& rank, const scenario::Run& run) {
  const int world = rank.world().size();
  const Kind& kind = kind_of(run.scenario().plan);
  switch (kind.plans(run.scenario(), world)) {
    case Plans::exactly: return check_nothing_else_is_communicated(rank, run);
    case Plans::nothing: return;
    case Plans::least: break;
  }
  check_plan_is_communicated(rank, run);
  const std::vector<Communication> asked = kind.planned(run.scenario(), world);
  for (const scenario::Iteration& iteration : run.iterations()) {
    CAPTURE(iteration.index());
    const Communication done = issued(kind, iteration);
    CHECK(done.reduce_scatters == asked.at(static_cast<std::size_t>(iteration.index())).reduce_scatters);
    CHECK(done.all_reduces == asked.at(static_cast<std::size_t>(iteration.index())).all_reduces);
  }
}

}  // namespace

Drawn drawn(const Subjects& subjects, std::uint64_t seed, int world) {
  std::vector<std::string> names, without;
  for (const std::string_view name : scenario::find_engine_kind(subjects.kind)->feature_names()) names.emplace_back(name);
  for (const Feature feature : subjects.without) without.emplace_back(feature.name());
  scenario::Palette palette = scenario::palette(subjects.kind, names, without);
  for (int draw = 0; draw < most_draws; ++draw) {
    palette.captures_all = draw % 2 == 0;
    Scenario scenario = scenario::generate(subjects.kind, digest(fmt::format("{} {}", seed, draw)), std::vector{world}, palette).scenario;
    if (!subjects.is_wanted(scenario, seed) || scenario::needed_features(scenario).size() < least_features) continue;
    if (seed % 2 == 1 && kind_of(scenario.plan).plans(scenario, world) == Plans::nothing) continue;
    if (const auto tolerance = tolerance_of(scenario, world)) return {.scenario = std::move(scenario), .tolerance = *tolerance};
  }
  throw std::logic_error(fmt::format("seed {} draws no scenario for {} that is wanted", seed, subjects.kind));
}

scenario::Run check_generated(Rank& rank, const Subjects& subjects) {
  if (rank.param<int>("generator") != generator_version)
    throw std::logic_error(fmt::format("this program has version {} of the generator", generator_version));
  const auto seed = static_cast<std::uint64_t>(rank.param<int>("seed"));
  const Drawn drawn = suites::drawn(subjects, seed, rank.world().size());
  if (const std::string lacking = rank.lacking(scenario::needed_features(drawn.scenario)); !lacking.empty()) rank.skip(lacking);
  if (rounds_to_low_precision(drawn.scenario)) skip_unless_sums_have_an_order(rank);
  INFO("the scenario is drawn from the seed " << seed << ", version " << generator_version << " of the generator");
  scenario::Run run = play_accepted(rank, drawn.scenario);
  check_sound(rank, run);
  check_communication(rank, run);
  kind_of(run.scenario().plan).check_memory(run, rank.world().size());
  CHECK(run.left_alive() == 0);
  check_training(rank, run, Arithmetic::f32, drawn.tolerance, Moves::some_parameter);
  return run;
}

}  // namespace shardproof::suites

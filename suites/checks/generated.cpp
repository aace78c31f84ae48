#include "suites/checks/generated.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>

#include "fixtures/oracles/difference.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "harness/base/digest.hpp"
#include "harness/player/play.hpp"
#include "harness/runner/play/scenario_document.hpp"
#include "harness/scenario/generator/pairwise.hpp"
#include "harness/scenario/scenario_json.hpp"
#include "suites/checks/fabric.hpp"
#include "suites/checks/kind.hpp"
#include "suites/checks/playable.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/soundness.hpp"

namespace shardproof::suites {

namespace {

using oracles::Arithmetic;
using oracles::NamedValues;
using oracles::SerialIteration;
using scenario::Trait;

constexpr int most_draws = 20'000;
constexpr int draws_of_a_row = 100;  // then the scenario may lack the trait that most draws have lacked
constexpr std::size_t most_traits = 8;
constexpr std::uint64_t seeds_of_a_block = 32;
// Far above rounding in single precision, and far below the effect of a lost, doubled or wrongly divided gradient.
constexpr Tolerance rounded_somewhere{.loss = 1e-3, .gradient = 1e-3, .parameter = 1e-3, .zeros = Zeros::are_equal};
constexpr double largest_value = 256;
constexpr double rounded_somewhere_by_adam = 1e-2;
// A few last bits of small values in low precision, and still far below half a gradient.
constexpr Tolerance rounded_low{.loss = 0.5, .gradient = 0.25, .parameter = 0.0625, .zeros = Zeros::are_equal};
constexpr double largest_low_value = 16;

bool captures_values(const Scenario& scenario) {
  return any_call(scenario.script, [](const Action& action) { return action.kind == ActionKind::capture; });
}

bool is_low(std::optional<DType> dtype) { return dtype && *dtype != DType::f32; }

// In low precision a last bit is large, and may change with the order of a sum.
bool rounds_to_low_precision(const Scenario& scenario) {
  const MixedPrecision& mixed = scenario.plan.mixed_precision;
  if (is_low(mixed.param) || is_low(mixed.reduce) || is_low(mixed.output)) return true;
  if (keeps_low_precision(scenario)) return true;
  return any_call(scenario.script, [](const Action& action) {
    return registers_compression(action) || (action.extension && action.extension->kind != ExtensionKind::components);
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

bool are_finite(const std::vector<SerialIteration>& captures) {
  const auto is_finite = [](double value) { return std::isfinite(value); };
  const auto are = [&](const std::vector<NamedValues>& all) {
    return std::ranges::all_of(all, [&](const NamedValues& values) {
      return std::ranges::all_of(values.values, is_finite) &&
             std::ranges::all_of(values.local, [&](const auto& own) { return std::ranges::all_of(own, is_finite); });
    });
  };
  return std::ranges::all_of(captures, [&](const SerialIteration& capture) {
    return std::ranges::all_of(capture.losses, is_finite) && are(capture.gradients) && are(capture.parameters) &&
           are(capture.seconds);
  });
}

// Whether the captures show training. A pair of two equal tensors, or values that never move, would hide a mistake.
bool shows_training(const Scenario& scenario, const std::vector<SerialIteration>& captures) {
  const auto shows_gradient = [](const SerialIteration& capture) { return largest(capture.gradients) > 0; };
  if (!std::ranges::any_of(captures, shows_gradient)) return false;
  bool moves = false;
  for (const SerialIteration& capture : captures) {
    for (std::size_t p = 0; p < capture.parameters.size(); ++p) {
      const Tensor now = capture.parameters[p].tensor();
      if (now == capture.seconds[p].tensor()) return false;
      moves = moves || now != initial_value(scenario.model, p, 0, now.shape());
    }
  }
  return moves;
}

// Whether a lost or halved gradient, and a doubled step, differ by more than the tolerance.
bool shows_beyond(const std::vector<SerialIteration>& captures, const Tolerance& tolerance) {
  double gradient = 0, step = 0;
  for (std::size_t i = 0; i < captures.size(); ++i) {
    gradient = std::max(gradient, largest(captures[i].gradients));
    for (std::size_t p = 0; i > 0 && p < captures[i].parameters.size(); ++p)
      step = std::max(step, oracles::largest_difference(captures[i].parameters[p].tensor(),
                                                        captures[i - 1].parameters[p].tensor()));
  }
  return gradient >= 4 * tolerance.gradient && (std::isinf(tolerance.parameter) || step >= 2 * tolerance.parameter);
}

// Whether the values of two arithmetics differ by far less than the tolerance.
bool has_room(const std::vector<SerialIteration>& single, const std::vector<SerialIteration>& precise, int world,
              const Tolerance& tolerance, double most) {
  constexpr double room = 16;
  const auto differ = [&](const std::vector<NamedValues>& all, const std::vector<NamedValues>& others, double limit) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].defined() != others[i].defined()) return true;
      for (int rank = 0; rank < world && all[i].defined(); ++rank) {
        const Tensor mine = all[i].tensor(rank), other = others[i].tensor(rank);
        if (mine.defined() && !(room * oracles::largest_difference(mine, other) <= limit)) return true;
      }
    }
    return false;
  };
  for (std::size_t i = 0; i < single.size(); ++i) {
    const SerialIteration &one = single[i], &other = precise[i];
    for (std::size_t rank = 0; rank < one.losses.size(); ++rank) {
      if (!(room * std::abs(one.losses[rank] - other.losses[rank]) <= tolerance.loss)) return false;
    }
    if (largest(other.gradients) > most || largest(other.parameters) > most) return false;
    if (differ(one.gradients, other.gradients, tolerance.gradient)) return false;
    if (differ(one.parameters, other.parameters, tolerance.parameter)) return false;
    if (differ(one.seconds, other.seconds, tolerance.parameter)) return false;
  }
  return true;
}

// The tolerance for a scenario. `single` has the captures of the serial model in f32. Empty if they cannot judge the
// values.
std::optional<Tolerance> tolerance_of(const Scenario& scenario, int world, const std::vector<SerialIteration>& single) {
  if (single.empty() || !are_finite(single) || !shows_training(scenario, single)) return std::nullopt;
  if (single.back().order_shows.empty()) return equal_values;
  const bool is_low = rounds_to_low_precision(scenario);
  Tolerance tolerance = is_low ? rounded_low : rounded_somewhere;
  const bool has_attention =
      any_module(scenario, [](const Module& module) { return module.kind == ModuleKind::attention; });
  // A step of Adam moves each parameter by the rate, even if its gradient consists of roundings that differ between
  // engines.
  const Optimizer& optimizer = scenario.plan.optimizer;
  if (optimizer.kind != OptimizerKind::sgd) {
    tolerance.gradient = std::max(tolerance.gradient, rounded_somewhere_by_adam);
    tolerance.loss = std::max(tolerance.loss, rounded_somewhere_by_adam);
    // Gradients of attention cancel out in part, and leave roundings. Then a step may go either way, so only gradients
    // are judged.
    tolerance.parameter = has_attention ? std::numeric_limits<double>::infinity() : optimizer.rate / 4;
  }
  if (!shows_beyond(single, tolerance)) return std::nullopt;
  const std::vector<SerialIteration> precise = oracles::train_serially(scenario, world, Arithmetic::f64);
  if (!has_room(single, precise, world, tolerance, is_low ? largest_low_value : largest_value)) return std::nullopt;
  tolerance.exact =
      static_cast<std::size_t>(std::ranges::count_if(single, &std::string::empty, &SerialIteration::order_shows));
  return tolerance;
}

// The scenario with its expected values and tolerance. Empty if the serial model cannot judge the values.
std::optional<Drawn> judged(Scenario scenario, int world) {
  std::vector<SerialIteration> expected = oracles::train_serially(scenario, world, Arithmetic::f32);
  const std::optional<Tolerance> tolerance = tolerance_of(scenario, world, expected);
  if (!tolerance) return std::nullopt;
  return Drawn{.scenario = std::move(scenario), .expected = std::move(expected), .tolerance = *tolerance};
}

void check_communication(Rank& rank, const Run& run) {
  switch (kind_of(run.scenario().plan).plans(run.scenario(), rank.world().size())) {
    case Plans::exactly: return check_nothing_else_is_communicated(rank, run);
    case Plans::nothing: return;
    case Plans::least: break;
  }
  check_plan_is_communicated(rank, run);
  check_reductions(rank, run);
}

scenario::Palette palette_of(const Subjects& subjects) {
  return scenario::full_palette(subjects.kind,
                                std::vector<std::string>(subjects.without.begin(), subjects.without.end()));
}

// The scenario of a document that the run gives to the case. Skips the case if the serial model cannot judge the
// values.
Drawn given(Rank& rank, const Subjects& subjects, const std::filesystem::path& document) {
  Scenario scenario = runner::read_scenario(document, rank.world().size());
  if (const std::string_view kind = scenario.plan.engine.get()->kind(); kind != subjects.kind)
    rank.skip(
        fmt::format("{} is for the engine kind {}, but the case is for {}", document.string(), kind, subjects.kind));
  if (!is_playable(scenario))
    rank.skip(
        fmt::format("no engine can be judged on {}: one of its backwards reaches no trained parameter, or leaves work "
                    "to a later backward",
                    document.string()));
  std::optional<Drawn> drawn = judged(std::move(scenario), rank.world().size());
  if (!drawn) rank.skip(fmt::format("the serial model cannot judge the values of {}", document.string()));
  return *std::move(drawn);
}

// Draws until a scenario is good. A draw depends only on its number, and the first good draw counts. The search takes
// longer than the play, so all ranks share it.
class Search {
 public:
  /// `group` has all ranks that search; nullptr if one rank searches alone.
  Search(const Subjects& subjects, std::uint64_t seed, int world, Group* group)
      : subjects_(subjects), seed_(seed), world_(world), group_(group), palette_(palette_of(subjects)) {
    const std::vector<Trait> row = wanted_traits(subjects, seed, world);
    palette_.wanted = {row.begin(), row.end()};
  }

  Drawn run() {
    const int ranks = group_ != nullptr ? group_->size() : 1, index = group_ != nullptr ? group_->rank() : 0;
    for (int begin = 0, end = draws_of_a_row - 1; begin < most_draws;
         begin = end, end = std::min(end + draws_of_a_row, most_draws)) {
      lacked_.clear();
      for (int first = begin; first < end; first += ranks) {
        const int mine = first + index;
        std::optional<Drawn> found = mine < end ? draw(mine) : std::nullopt;
        const int good = least_of_all(found ? mine : most_draws);
        if (good == most_draws) continue;
        if (good != mine) found = draw(good);
        if (!found)
          throw std::logic_error(
              fmt::format("rank {} finds no scenario in draw {}, but another rank does", index, good));
        return *std::move(found);
      }
      give_up_a_trait();
    }
    throw std::logic_error(fmt::format("seed {} draws no wanted scenario for {}", seed_, subjects_.kind));
  }

 private:
  std::optional<Drawn> draw(int number) {
    palette_.captures_all = number % 2 == 0;
    const std::uint64_t of_draw = base::digest(fmt::format("{} {}", seed_, number));
    Scenario scenario = scenario::draw(subjects_.kind, of_draw, std::vector{world_}, palette_).scenario;
    const std::set<Trait> has = scenario::traits(scenario);
    if (!std::ranges::includes(has, palette_.wanted)) {
      for (const Trait trait : palette_.wanted) lacked_[trait] += has.contains(trait) ? 0 : 1;
      return std::nullopt;
    }
    if (!captures_values(scenario) || !is_playable(scenario)) return std::nullopt;
    if (subjects_.is_wanted && !subjects_.is_wanted(scenario)) return std::nullopt;
    validate(scenario);
    return judged(std::move(scenario), world_);
  }

  // Allows later scenarios to lack the trait that most draws of the row have lacked.
  void give_up_a_trait() {
    std::vector<std::int64_t> counts;
    for (const Trait trait : palette_.wanted) counts.push_back(lacked_[trait]);
    if (counts.empty()) return;
    if (group_ != nullptr) {
      const Tensor all = group_->all_reduce(Tensor::of<std::int64_t>({std::ssize(counts)}, counts));
      std::ranges::copy(all.values<std::int64_t>(), counts.begin());
    }
    const auto most = std::ranges::max_element(counts);
    if (*most > 0) palette_.wanted.erase(std::next(palette_.wanted.begin(), most - counts.begin()));
  }

  int least_of_all(int mine) const {
    if (group_ == nullptr) return mine;
    const Tensor all =
        group_->all_reduce(Tensor::of<std::int64_t>({1}, std::vector<std::int64_t>{mine}), ReduceOp::min);
    return static_cast<int>(all.values<std::int64_t>()[0]);
  }

  const Subjects& subjects_;
  std::uint64_t seed_;
  int world_;
  Group* group_;
  scenario::Palette palette_;
  std::map<Trait, std::int64_t> lacked_;  // the number of draws of a row that lacked the trait
};

}  // namespace

std::vector<Trait> wanted_traits(const Subjects& subjects, std::uint64_t seed, int world) {
  const scenario::Palette palette = palette_of(subjects);
  const auto is_about = [&](Trait trait) {
    return subjects.about.empty() || std::ranges::find(subjects.about, trait) != subjects.about.end();
  };
  const scenario::PairwiseRows all_rows(
      scenario::possible_traits(subjects.kind, palette),
      [&](Trait one, Trait other) { return !scenario::exclude_each_other(subjects.kind, one, other); },
      [&](Trait one, Trait other) { return is_about(one) || is_about(other); });
  scenario::PairwiseRows rows = all_rows;
  // Each block of seeds starts again, so that a large seed does not go through the rows of all seeds before it.
  for (std::uint64_t earlier = seed - (seed - 1) % seeds_of_a_block;; ++earlier) {
    for (const int each : {4, 2, 3}) {
      if (rows.is_complete()) rows = all_rows;  // each trait again, with other traits
      // A mesh of two or three ranks has one dimension that does nothing.
      const auto is_allowed = [&](Trait trait) {
        return each == 4 || trait != Feature(Feature::replicated_mesh).name();
      };
      std::vector<Trait> traits =
          rows.next(most_traits, is_allowed, base::digest(fmt::format("{} {} {}", subjects.kind, earlier, each)));
      if (earlier == seed && each == std::min(world, 4)) return traits;
    }
  }
}

Drawn drawn(const Subjects& subjects, std::uint64_t seed, int world) {
  return Search(subjects, seed, world, nullptr).run();
}

Run check_generated(Rank& rank, const Subjects& subjects) {
  if (rank.param<int>("generator") != generator_version)
    throw std::logic_error(fmt::format("this program has only version {} of the generator", generator_version));
  const auto seed = static_cast<std::uint64_t>(rank.param<int>("seed"));
  const std::filesystem::path document = given_scenario(rank);
  const Drawn drawn = document.empty() ? Search(subjects, seed, rank.world().size(), &rank.world()).run()
                                       : given(rank, subjects, document);
  if (const std::string lacking = rank.lacking(scenario::needed_features(drawn.scenario)); !lacking.empty())
    rank.skip(lacking);
  if (rounds_to_low_precision(drawn.scenario)) skip_unless_sums_have_an_order(rank);
  INFO((document.empty() ? fmt::format("the scenario is drawn from the seed {}, version {} of the generator", seed,
                                       generator_version)
                         : fmt::format("the scenario is {}", document.string())));
  const std::set<Trait> combined = scenario::traits(drawn.scenario);
  rank.combines({combined.begin(), combined.end()});
  Run run = play_accepted(rank, drawn.scenario);
  check_sound(rank, run);
  check_communication(rank, run);
  check_memory(rank, run);
  check_freed_memory(rank, run);
  check_training(rank, run, Arithmetic::f32, drawn.expected, drawn.tolerance, Moves::some_parameter);
  return run;
}

}  // namespace shardproof::suites

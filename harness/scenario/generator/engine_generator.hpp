// The part of the generator of scenarios that knows one kind of engine. The generator finds it by a plan's engine kind.
// Each kind has its own files here. The common files include no header of a kind. Inner header.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/scenario/generator/dice.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "harness/scenario/scenario.hpp"

namespace shardproof::scenario {

class EngineGenerator {
 public:
  /// Receives a change that makes a plan smaller. It makes the change to a copy before it returns.
  using Offer = std::function<void(const std::function<void(Plan&)>& change)>;

  virtual ~EngineGenerator() = default;
  /// The kind of the sections that it makes.
  virtual std::string_view kind() const = 0;
  /// The palette without the traits that no scenario for this kind has.
  virtual Palette fitted(Palette palette) const = 0;
  /// Pairs of traits that no scenario for this kind has.
  virtual std::vector<std::pair<Trait, Trait>> excluded_pairs() const = 0;
  /// The features that the section and the calls of this kind need. They may include common features.
  virtual std::vector<Feature> needed_features(const Scenario& scenario) const = 0;

  /// Begins the section with the groups of modules. Removes from the model the parts that these groups cannot hold.
  virtual void draw_groups(Scenario& scenario, Dice& dice) const = 0;
  /// Draws the rest of the section, for parameters that are sharded over `shards` ranks.
  virtual void draw_options(Scenario& scenario, int shards, Dice& dice, const Palette& palette) const = 0;
  /// Whether all modules can compute in low precision: the engine casts the model's input and all parameters.
  virtual bool casts_whole_model(const Plan& plan) const = 0;
  /// Whether a plan for this kind can have a dtype of outputs.
  virtual bool casts_outputs() const = 0;

  /// Calls of this kind of engine before the first forward.
  virtual std::vector<Action> draw_registrations(const Scenario& scenario, Dice& dice,
                                                 const Palette& palette) const = 0;
  /// Calls of this kind of engine before a forward, and between a forward and its backward.
  virtual std::vector<Action> draw_before_forward(const Scenario& scenario, Dice& dice,
                                                  const Palette& palette) const = 0;
  virtual std::vector<Action> draw_after_forward(const Scenario& scenario, Dice& dice,
                                                 const Palette& palette) const = 0;
  /// Calls of this kind of engine right after a step.
  virtual std::vector<Action> draw_after_step(Dice& dice, const Palette& palette) const = 0;
  /// The switch that is off in the first micro-batch and on in the last one.
  virtual Action draw_accumulation_switch(const Scenario& scenario, Dice& dice) const = 0;

  /// Offers plans with fewer or simpler groups, and then plans with fewer or simpler options.
  virtual void offer_smaller_groups(const Plan& plan, const Offer& offer) const = 0;
  virtual void offer_smaller_options(const Plan& plan, const Offer& offer) const = 0;

  /// Removes from the section the names of lost modules and parameters, and options that do not fit `shards` ranks.
  virtual void repair(Scenario& scenario, int shards) const = 0;
  /// Calls `change` with every path and name in the section. Groups that have a module in common then become one.
  virtual void rename(Plan& plan, const std::function<void(std::string&)>& change) const = 0;
};

/// The generators of all kinds that can be drawn.
const std::vector<const EngineGenerator*>& engine_generators();
/// Throws std::invalid_argument for a kind that cannot be drawn. The error lists the kinds that can.
const EngineGenerator& engine_generator(std::string_view kind);
/// The generator of the plan's kind. Throws std::invalid_argument likewise, and for a plan without a section.
const EngineGenerator& engine_generator(const Plan& plan);

}  // namespace shardproof::scenario

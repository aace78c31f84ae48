#include <optional>

#include "harness/scenario/generator/engine_generator.hpp"
#include "harness/scenario/generator/factors.hpp"
#include "harness/scenario/generator/parts.hpp"

namespace shardproof::scenario {

namespace {

class PlanDraw {
 public:
  PlanDraw(Scenario& scenario, const EngineGenerator& engine, int ranks, Dice& dice, const Palette& palette)
      : scenario_(scenario),
        plan_(scenario.plan),
        dice_(dice),
        palette_(palette),
        engine_(engine),
        shards_(ranks),
        ranks_(ranks) {}

  void draw() {
    engine_.draw_groups(scenario_, dice_);
    mesh();
    engine_.draw_options(scenario_, shards_, dice_, palette_);
    const bool wants_half = palette_.wants(Ingredient::half_precision);
    if (draws(palette_, Feature::mixed_precision, dice_, wants_half ? 100 : 20)) mixed_precision();
    if (draws(palette_, Feature::meta_initialisation, dice_, 12)) plan_.initialisation = Initialisation::meta;
    optimizer();
  }

 private:
  // The other ranks of split-off groups cannot be imagined.
  bool imagines() const { return scenario_.device.imagined_ranks > 0; }
  bool takes_tokens() const { return vocabulary(scenario_.model) > 0; }

  void mesh() {
    if (dice_.chance(5)) plan_.mesh = {.shape = {ranks_}, .names = {"shard"}};
    if (ranks_ == 1 || imagines() || !draws(palette_, Feature::replicated_mesh, dice_, 25)) return;
    shards_ = dice_.one_of(factors(ranks_));
    plan_.mesh = {.shape = {ranks_ / shards_, shards_}, .names = {"replicate", "shard"}};
  }

  // In low precision, a module's input must be cast, and the module has no parameter of another dtype.
  void mixed_precision() {
    MixedPrecision& mixed = plan_.mixed_precision;
    const DType low = draws(palette_, Ingredient::half_precision, dice_, 33) ? DType::f16 : DType::bf16;
    const bool may_compute = engine_.casts_whole_model(plan_) && !takes_tokens();
    if (may_compute && dice_.chance(70)) mixed.param = low;
    const bool wants_half = palette_.wants(Ingredient::half_precision);
    if (dice_.chance(wants_half && !mixed.param ? 100 : 50))
      mixed.reduce = dice_.chance(wants_half ? 20 : 50) ? DType::f32 : low;
    // Only the loss may receive a cast output.
    if (may_compute && engine_.casts_outputs() && plan_.engine.get()->groups(scenario_.model).size() == 1 &&
        dice_.chance(30))
      mixed.output = dice_.chance(50) ? DType::f32 : DType::bf16;
  }

  void optimizer() {
    Optimizer& optimizer = plan_.optimizer;
    if (!keeps_low_precision(scenario_) && draws(palette_, Ingredient::adam, dice_, 25)) {
      optimizer.kind = dice_.chance(50) ? OptimizerKind::adam : OptimizerKind::adamw;
      optimizer.rate = 0.015625;
      if (dice_.chance(40)) optimizer.weight_decay = 0.25;
    } else {
      optimizer.rate = dice_.one_of(std::vector<double>{1, 0.5, 0.0625});
    }
  }

  Scenario& scenario_;
  Plan& plan_;
  Dice& dice_;
  const Palette& palette_;
  const EngineGenerator& engine_;
  int shards_;
  const int ranks_;
};

}  // namespace

void draw_plan(Scenario& scenario, const EngineGenerator& engine, int ranks, Dice& dice, const Palette& palette) {
  PlanDraw(scenario, engine, ranks, dice, palette).draw();
}

}  // namespace shardproof::scenario

// Draws the section of a plan for `fully_shard`.
#include <algorithm>
#include <utility>

#include "harness/scenario/generator/factors.hpp"
#include "harness/scenario/generator/fully_shard.hpp"
#include "harness/scenario/generator/parts.hpp"
#include "harness/scenario/generator/wrapping.hpp"
#include "harness/scenario/plan/fully_shard.hpp"

namespace shardproof::scenario {

namespace {

using Reshard = ReshardAfterForward;

bool holds_root(const Plan& plan) {
  const std::vector<std::string> wrapped = fully_shard_plan(plan).wrapped_modules();
  return std::ranges::find(wrapped, "") != wrapped.end();
}

class OptionsDraw {
 public:
  OptionsDraw(Scenario& scenario, int shards, Dice& dice, const Palette& palette)
      : scenario_(scenario), plan_(scenario.plan), dice_(dice), palette_(palette), shards_(shards) {}

  void draw() {
    if (draws(palette_, Feature::module_groups, dice_, 20)) join_groups();
    reshard();
    if (holds_root(plan_) && draws(palette_, FullyShardFeature::prefetch_lists, dice_, 25)) prefetch();
    if (draws(palette_, FullyShardFeature::prefetch_lists, dice_, 12, 50))
      fully_shard_plan(plan_).backward_prefetch = BackwardPrefetch::none;
    if (draws(palette_, Feature::ignored_parameters, dice_, 10)) ignore();
    if (draws(palette_, FullyShardFeature::shard_dims, dice_, 20)) shard_dims();
    if (draws(palette_, FullyShardFeature::gradient_divide_factor, dice_, 10))
      fully_shard_plan(plan_).gradient_divide_factor = dice_.one_of(std::vector<double>{1, 2, 3, 4, 8});
  }

 private:
  // Imagined ranks cannot be in a group that is split off the world.
  bool imagines() const { return scenario_.device.imagined_ranks > 0; }

  // Makes one group of two neighbours, if neither holds the other. The root stays a group by itself.
  void join_groups() {
    if (!holds_root(plan_)) return;
    for (std::size_t i = 0; i + 2 < fully_shard_plan(plan_).wrap.size(); ++i) {
      const std::string &one = fully_shard_plan(plan_).wrap[i].modules.front(),
                        &other = fully_shard_plan(plan_).wrap[i + 1].modules.front();
      if (is_at_or_under(one, other) || !dice_.chance(50)) continue;
      fully_shard_plan(plan_).wrap[i].modules.push_back(other);
      fully_shard_plan(plan_).wrap.erase(fully_shard_plan(plan_).wrap.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return;
    }
  }

  bool is_extended(const WrapGroup& group) const {
    return std::ranges::any_of(parameters(scenario_.model), [&](const ParameterShape& parameter) {
      return parameter.tensor != TensorKind::plain &&
             fully_shard_plan(scenario_.plan).group_of(parameter.name) == &group;
    });
  }

  void reshard() {
    for (WrapGroup& group : fully_shard_plan(plan_).wrap) {
      const bool has_size = palette_.has(FullyShardFeature::reshard_to_size) && !is_extended(group) && !imagines();
      const bool wants_size = has_size && palette_.wants(FullyShardFeature::reshard_to_size) && dice_.chance(50);
      const int what = wants_size ? 50 : dice_.between(0, 99);
      if (what < 25) group.reshard_after_forward.kind = Reshard::Kind::yes;
      else if (what < 50) group.reshard_after_forward.kind = Reshard::Kind::no;
      else if (what < 65 && has_size)
        group.reshard_after_forward = {.kind = Reshard::Kind::size, .size = dice_.one_of(factors(shards_))};
    }
  }

  // Groups that come later, and earlier, in a forward. The order in the document is nearly the order of the forward.
  void prefetch() {
    for (std::size_t i = 0; i < fully_shard_plan(plan_).wrap.size(); ++i) {
      const auto some = [&](std::size_t begin, std::size_t end) {
        std::vector<std::string> names;
        for (std::size_t other = begin; other < end && names.size() < 2; ++other) {
          const bool is_root = std::ranges::find(fully_shard_plan(plan_).wrap[other].modules, "") !=
                               fully_shard_plan(plan_).wrap[other].modules.end();
          if (!is_root && dice_.chance(50)) names.push_back(fully_shard_plan(plan_).wrap[other].modules.front());
        }
        return names;
      };
      if (dice_.chance(40))
        fully_shard_plan(plan_).wrap[i].forward_prefetch = some(i + 1, fully_shard_plan(plan_).wrap.size());
      if (dice_.chance(40)) {
        fully_shard_plan(plan_).wrap[i].backward_prefetch = some(0, i);
        std::ranges::reverse(fully_shard_plan(plan_).wrap[i].backward_prefetch);
      }
    }
  }

  // Chooses a parameter that no other option names.
  std::vector<ParameterShape> plain_parameters() const {
    std::vector<ParameterShape> all = parameters(scenario_.model);
    std::erase_if(all, [&](const ParameterShape& parameter) {
      return parameter.tensor != TensorKind::plain || !parameter.aliases.empty() ||
             !fully_shard_plan(scenario_.plan).group_of(parameter.name);
    });
    return all;
  }

  void ignore() {
    const std::vector<ParameterShape> all = plain_parameters();
    if (all.size() > 1) fully_shard_plan(plan_).ignored_parameters = {dice_.one_of(all).name};
  }

  void shard_dims() {
    for (const ParameterShape& parameter : plain_parameters()) {
      if (!dice_.chance(50)) continue;
      const int dims = static_cast<int>(parameter.shape.size());
      const int dim = dice_.between(0, dims - 1);
      if (dim > 0 && parameter.shape[static_cast<std::size_t>(dim)] % shards_ != 0) continue;
      fully_shard_plan(plan_).shard_dims[parameter.name] = dice_.chance(50) ? dim : dim - dims;
    }
  }

  Scenario& scenario_;
  Plan& plan_;
  Dice& dice_;
  const Palette& palette_;
  const int shards_;
};

}  // namespace

// Each module is in its own group.
void draw_fully_shard_groups(Scenario& scenario, Dice& dice) {
  FullyShardPlan& section = fully_shard_plan(scenario.plan);
  for (std::string& path : draw_wrapped_modules(scenario.model, dice))
    section.wrap.push_back({.modules = {std::move(path)}});
}

void draw_fully_shard_options(Scenario& scenario, int shards, Dice& dice, const Palette& palette) {
  OptionsDraw(scenario, shards, dice, palette).draw();
}

}  // namespace shardproof::scenario

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "harness/scenario/generator/factors.hpp"
#include "harness/scenario/generator/parts.hpp"

namespace shardproof::scenario {

namespace {

class ModelDraw {
 public:
  ModelDraw(Dice& dice, const Palette& palette) : dice_(dice), palette_(palette) {}

  // A model that passes rows of features through layers of all kinds.
  Model of_features(std::int64_t in) {
    Model model;
    std::int64_t width = in;
    const int layers = palette_.wanted.empty() ? dice_.between(0, 3) : dice_.between(2, 4);
    for (int i = 0; i < layers; ++i)
      model.root.children.push_back(layer(fmt::format("{}", i), fmt::format("{}", i), width, 0));
    // The head is always trained, even if all modules before it are frozen or unused.
    Module head = linear("head", width, dice_.between(1, 4));
    head.frozen = false;
    head.tied_to.clear();
    model.root.children.push_back(std::move(head));
    model.loss = loss();
    return model;
  }

  // A model that maps tokens through attention to classes.
  Model of_tokens(std::int64_t positions) {
    Model model;
    const std::int64_t features = dice_.between(2, 4), vocabulary = dice_.between(3, 7);
    model.root.children.push_back({.name = "embedding",
                                   .kind = ModuleKind::embedding,
                                   .features = features,
                                   .vocabulary = vocabulary,
                                   .positions = dice_.chance(50) ? positions : 0});
    const int blocks = palette_.wanted.empty() ? dice_.between(0, 2) : dice_.between(1, 2);
    for (int i = 0; i < blocks; ++i) {
      Module block{.name = fmt::format("{}", i),
                   .kind = dice_.chance(70) ? ModuleKind::residual : ModuleKind::sequential};
      if (dice_.chance(60))
        block.children.push_back({.name = "norm", .kind = ModuleKind::layer_norm, .features = features});
      if (dice_.chance(60))
        block.children.push_back({.name = "attention", .kind = ModuleKind::attention, .features = features});
      else if (palette_.has(Feature::convolution) && dice_.chance(20))
        block.children.push_back(convolution("convolution", features, features));
      else block.children.push_back(linear("linear", features, features));
      model.root.children.push_back(std::move(block));
    }
    const int layers = palette_.wanted.empty() ? 0 : dice_.between(0, 3);
    for (int i = 0; i < layers; ++i) add_layer_between(model.root, fmt::format("between{}", i), features);
    Module head{.name = "head", .kind = ModuleKind::linear, .in_features = features, .out_features = vocabulary};
    head.bias = dice_.chance(50);
    if (draws(palette_, Feature::shared_parameters, dice_, 30)) head.tied_to = "embedding";
    model.root.children.push_back(std::move(head));
    model.loss.kind = LossKind::cross_entropy;
    return model;
  }

 private:
  // A drawn module with as many output features as input features: it may be used again.
  struct Made {
    std::string path;
    std::int64_t width = 0;
  };

  // Adds a layer of any kind. If it changes the number of features, adds a layer that restores the number.
  void add_layer_between(Module& root, const std::string& name, std::int64_t features) {
    std::int64_t width = features;
    root.children.push_back(layer(name, name, width, 0));
    if (width != features) root.children.push_back(layer_back(name + "_back", "", width, features));
  }

  Module linear(std::string name, std::int64_t in, std::int64_t out) {
    Module module{.name = std::move(name), .kind = ModuleKind::linear, .in_features = in, .out_features = out};
    module.bias = dice_.chance(70);
    module.frozen = draws(palette_, Ingredient::frozen_parameters, dice_, 10, 40);
    const bool may_sleep = palette_.has(Feature::timeline);
    if (may_sleep && dice_.chance(60)) module.forward_sleep = dice_.between(1, 5) * millisecond;
    if (may_sleep && dice_.chance(60)) module.backward_sleep = dice_.between(1, 10) * millisecond;
    if (draws(palette_, Feature::all_gather_extensions, dice_, 8, 50)) module.tensor = composed();
    tie(module);
    return module;
  }

  Module convolution(std::string name, std::int64_t in, std::int64_t out) {
    Module module{.name = std::move(name), .kind = ModuleKind::convolution, .in_features = in, .out_features = out};
    module.channels = dice_.one_of(factors(static_cast<int>(in)));
    module.bias = dice_.chance(70);
    if (draws(palette_, Feature::all_gather_extensions, dice_, 8, 50)) module.tensor = composed();
    return module;
  }

  TensorKind composed() { return dice_.chance(60) ? TensorKind::two_tensor : TensorKind::low_precision; }

  void tie(Module& module) {
    const auto owner = std::ranges::find_if(owners_, [&](const Module& other) {
      return other.in_features == module.in_features && other.out_features == module.out_features;
    });
    const bool may =
        palette_.has(Feature::shared_parameters) && module.tensor == TensorKind::plain && owner != owners_.end();
    if (may && draws(palette_, Feature::shared_parameters, dice_, 30)) module.tied_to = owner->name;
  }

  // Other modules may now be tied to this module. Its name here is its path.
  void remember(const Module& module, const std::string& path) {
    if (module.kind != ModuleKind::linear || !module.tied_to.empty() || module.tensor != TensorKind::plain) return;
    owners_.push_back(module);
    owners_.back().name = path;
  }

  Module layer(const std::string& name, const std::string& path, std::int64_t& width, int depth) {
    const std::int64_t in = width;
    Module module = drawn(name, path, width, depth);
    remember(module, path);
    const bool can_run_again =
        module.kind != ModuleKind::use && module.kind != ModuleKind::list && module.kind != ModuleKind::relu;
    if (width == in && can_run_again) made_.push_back({path, width});
    return module;
  }

  // A number below 100 that `drawn` maps to a kind of layer.
  int kind_of_layer() {
    std::vector<int> wanted;
    if (palette_.wants(Ingredient::scales)) wanted.push_back(14);
    if (palette_.wants(Ingredient::residuals)) wanted.push_back(34);
    if (palette_.wants(Ingredient::unused_modules)) wanted.push_back(42);
    if (palette_.wants(Ingredient::repeated_modules)) wanted.push_back(47);
    if (palette_.wants(Feature::convolution)) wanted.push_back(54);
    return !wanted.empty() && dice_.chance(60) ? dice_.one_of(wanted) : dice_.between(0, 99);
  }

  Module drawn(const std::string& name, const std::string& path, std::int64_t& width, int depth) {
    const bool may_nest = depth < 2;
    if (may_nest && draws(palette_, Ingredient::choices, dice_, 20, 50)) return choice(name, width);
    const int what = kind_of_layer();
    if (what < 14) return {.name = name, .kind = ModuleKind::relu};
    if (what < 22 && palette_.has(Ingredient::scales)) return {.name = name, .kind = ModuleKind::scale};
    if (what < 34 && may_nest) return container(ModuleKind::sequential, name, path, width, depth);
    if (what < 42 && may_nest && palette_.has(Ingredient::residuals)) {
      const std::int64_t in = width;
      Module module = container(ModuleKind::residual, name, path, width, depth);
      if (width != in) module.children.push_back(layer_back("back", path, width, in));
      return module;
    }
    if (what < 47 && may_nest && palette_.has(Ingredient::unused_modules)) {
      std::int64_t unused = width;
      return container(dice_.chance(70) ? ModuleKind::discard : ModuleKind::list, name, path, unused, depth);
    }
    if (what < 54 && palette_.has(Ingredient::repeated_modules)) {
      const auto again = std::ranges::find(made_, width, &Made::width);
      if (again != made_.end()) return {.name = name, .kind = ModuleKind::use, .target = again->path};
    }
    const bool convolves = what < 60 && palette_.has(Feature::convolution);
    // Layers of one shape can share a weight.
    const std::int64_t out =
        dice_.chance(palette_.wants(Feature::shared_parameters) ? 85 : 50) ? width : dice_.between(1, 5);
    Module module = convolves ? convolution(name, width, out) : linear(name, width, out);
    width = out;
    return module;
  }

  // Draws a choice between ways of one or two layers, with the same output.
  Module choice(const std::string& name, std::int64_t& width) {
    Module module{.name = name, .kind = ModuleKind::choice};
    const std::int64_t out = dice_.chance(50) ? width : dice_.between(1, 5);
    const int ways = dice_.between(2, 3);
    for (int i = 0; i < ways; ++i) {
      const std::string way = fmt::format("{}", i);
      if (dice_.chance(50)) {
        module.children.push_back(linear(way, width, out));
        continue;
      }
      const std::int64_t between = dice_.between(1, 4);
      module.children.push_back({.name = way, .children = {linear("0", width, between), linear("1", between, out)}});
    }
    width = out;
    return module;
  }

  Module layer_back(std::string name, const std::string& path, std::int64_t& width, std::int64_t to) {
    Module module = linear(name, width, to);
    remember(module, child_path(path, name));
    width = to;
    return module;
  }

  Module container(ModuleKind kind, const std::string& name, const std::string& path, std::int64_t& width, int depth) {
    Module module{.name = name, .kind = kind};
    const int layers = dice_.between(1, 2);
    for (int i = 0; i < layers; ++i) {
      const std::string child = fmt::format("{}", i);
      module.children.push_back(layer(child, child_path(path, child), width, depth + 1));
    }
    return module;
  }

  Loss loss() {
    const std::vector<double> divisors{1, 2, 4, 8};
    switch (dice_.between(0, 2)) {
      case 0: return {.kind = LossKind::sum};
      case 1: return {.kind = LossKind::sum_of_squares, .divisor = dice_.one_of(divisors)};
      default:
        return {.kind = LossKind::dot,
                .divisor = dice_.one_of(divisors),
                .dot_seed = static_cast<std::uint32_t>(dice_.between(1, 9))};
    }
  }

  Dice& dice_;
  const Palette& palette_;
  std::vector<Made> made_;
  std::vector<Module> owners_;
};

}  // namespace

void draw_model(Scenario& scenario, Dice& dice, const Palette& palette) {
  ModelDraw draw(dice, palette);
  const std::vector<int> divisors{1, 1, 2, 8};
  const std::int64_t batch = dice.between(1, 3);
  if (draws(palette, Feature::language_model, dice, 8)) {
    const std::int64_t positions = dice.between(1, 4);
    scenario.model = draw.of_tokens(positions);
    scenario.script.input = {batch, positions};
  } else {
    const std::int64_t features = dice.between(1, 5);
    scenario.model = draw.of_features(features);
    scenario.script.input = {batch, features};
  }
  scenario.model.init_divisor = dice.one_of(divisors);
  if (draws(palette, Feature::truncated_normal, dice, 10)) scenario.model.init = Distribution::truncated_normal;
  scenario.script.input_divisor = dice.one_of(divisors);
}

}  // namespace shardproof::scenario

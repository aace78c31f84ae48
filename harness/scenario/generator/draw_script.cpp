#include <algorithm>
#include <iterator>
#include <map>
#include <string>

#include "harness/scenario/exactness.hpp"
#include "harness/scenario/flow.hpp"
#include "harness/scenario/generator/engine_generator.hpp"
#include "harness/scenario/generator/parts.hpp"

namespace shardproof::scenario {

namespace {

class ScriptDraw {
 public:
  ScriptDraw(Scenario& scenario, int ranks, Dice& dice, const Palette& palette)
      : scenario_(scenario), dice_(dice), palette_(palette), engine_(engine_generator(scenario.plan)), ranks_(ranks) {}

  void draw() {
    std::vector<Script::Segment>& segments = scenario_.script.segments;
    if (std::vector<Action> first = preparation(); !first.empty()) segments.push_back({.body = std::move(first)});
    const int bodies = palette_.wanted.empty() ? dice_.between(1, 2) : 2;
    for (int i = 0; i < bodies; ++i) {
      const bool is_accumulating = draws(palette_, Feature::gradient_accumulation, dice_, 25, 60);
      segments.push_back({.iterations = dice_.between(1, 3), .body = is_accumulating ? accumulation() : training()});
    }
    if (!palette_.captures_all) keep_exact_captures();
  }

 private:
  // The calls before the first forward.
  std::vector<Action> preparation() {
    std::vector<Action> body;
    const auto extensions = [&] {
      for (Extension& extension : drawn_extensions())
        body.push_back({.kind = ActionKind::extend, .extension = std::move(extension)});
      if (!body.empty() && body.back().kind == ActionKind::extend) keep_extensions_comparable();
    };
    std::ranges::move(engine_.draw_registrations(scenario_, dice_, palette_), std::back_inserter(body));
    const bool is_meta = scenario_.plan.initialisation == Initialisation::meta;
    const bool registers_first = dice_.chance(50);
    if (registers_first) extensions();
    if (is_meta) body.insert(body.end(), {Action{ActionKind::materialize}, Action{ActionKind::initialize}});
    if (!registers_first) extensions();
    return body;
  }

  // Engines may agree on sizes in any way (EXT-6), and pack the tensors of hooks in any number of pieces. So these cost
  // nothing: their times are not a difference between engines.
  void keep_extensions_comparable() {
    CostModel& costs = scenario_.costs;
    if (costs.collectives.contains(CollectiveKind::all_gather))
      costs.tagged_collectives[{CollectiveKind::all_gather, std::string(extension_sizes_tag)}] = 0;
    for (const WorkKind packing : {WorkKind::copy_in, WorkKind::copy_out}) costs.work.erase(packing);
  }

  // Pairs need an extension. Other parameters may have one.
  std::vector<Extension> drawn_extensions() {
    std::vector<Extension> all;
    for (const ParameterShape& parameter : parameters(scenario_.model)) {
      if (parameter.tensor == TensorKind::plain) continue;
      if (!scenario_.plan.engine.get()->objection_to_extension(parameter).empty()) continue;
      const bool is_pair = parameter.tensor == TensorKind::two_tensor;
      if (!is_pair && dice_.chance(30)) continue;
      Extension extension{.parameter = parameter.name};
      const int what = dice_.between(0, 2);
      if (!is_pair && what == 1) extension.kind = ExtensionKind::bf16;
      if (!is_pair && what == 2) extension.kind = ExtensionKind::int8;
      // The added scale changes the number of elements, which only the minimal form allows.
      const bool is_minimal = extension.kind == ExtensionKind::int8 || dice_.chance(40);
      extension.form = is_minimal ? ExtensionForm::minimal : ExtensionForm::full;
      all.push_back(std::move(extension));
    }
    return all;
  }

  std::vector<Action> training() {
    std::vector<Action> body;
    if (draws(palette_, Feature::failed_forward, dice_, 8)) body.push_back(failing());
    std::ranges::move(engine_.draw_before_forward(scenario_, dice_, palette_), std::back_inserter(body));
    if (draws(palette_, Ingredient::evaluation, dice_, 15)) body.push_back(on_some_way(ActionKind::evaluate));
    body.push_back(on_some_way(ActionKind::forward));
    if (draws(palette_, Ingredient::several_forwards, dice_, 12)) body.push_back(on_some_way(ActionKind::forward));
    std::ranges::move(engine_.draw_after_forward(scenario_, dice_, palette_), std::back_inserter(body));
    body.push_back({ActionKind::backward});
    finish(body);
    return body;
  }

  // Two micro-batches. A switch is off in the first.
  std::vector<Action> accumulation() {
    Action of_batch = engine_.draw_accumulation_switch(scenario_, dice_);
    std::vector<Action> body;
    for (const bool value : {false, true}) {
      of_batch.value = value;
      body.push_back(of_batch);
      body.insert(body.end(), {on_some_way(ActionKind::forward), Action{ActionKind::backward}});
    }
    finish(body);
    return body;
  }

  // Draws the calls after the backward.
  void finish(std::vector<Action>& body) {
    if (draws(palette_, Feature::clip_grad_norm, dice_, 12))
      body.push_back({.kind = ActionKind::clip_grad_norm, .max_norm = 1, .norm_type = dice_.chance(70) ? 2.0 : 1.0});
    // After a step of Adam no value is exact. A body keeps all of its captures or none.
    const bool is_adam = scenario_.plan.optimizer.kind != OptimizerKind::sgd;
    if (dice_.chance(55) || is_adam) body.push_back({ActionKind::capture});
    if (dice_.chance(85)) {
      body.push_back({ActionKind::step});
      std::ranges::move(engine_.draw_after_step(dice_, palette_), std::back_inserter(body));
      if (dice_.chance(75) && (!is_adam || palette_.captures_all)) body.push_back({ActionKind::capture});
    }
    if (draws(palette_, Ingredient::kept_gradients, dice_, 15, 60)) return;
    const bool to_zero = draws(palette_, Ingredient::zeroing, dice_, 30);
    body.push_back({.kind = ActionKind::zero_grad, .to_zero = to_zero});
  }

  // Draws a child for each choice that the forward reaches.
  Action on_some_way(ActionKind kind) {
    Action action{.kind = kind};
    if (palette_.has(Ingredient::choices)) choose(scenario_.model.root, "", action.paths);
    return action;
  }

  void choose(const Module& module, const std::string& path, std::map<std::string, std::string>& ways) {
    if (module.kind == ModuleKind::list) return;
    if (module.kind == ModuleKind::use) return choose(*find(scenario_.model, module.target), module.target, ways);
    if (module.kind == ModuleKind::choice) {
      if (dice_.chance(50) && !ways.contains(path)) ways[path] = dice_.one_of(module.children).name;
      const Module& child = chosen_child(module, path, ways);
      return choose(child, child_path(path, child.name), ways);
    }
    for (const Module& child : module.children) choose(child, child_path(path, child.name), ways);
  }

  Action failing() {
    FlowCheck flow(scenario_.model, scenario_.script.input);
    flow.through(scenario_.model.root, "", flow.input());
    std::vector<std::string> run = paths(scenario_.model);
    std::erase_if(run, [&](const std::string& path) { return !flow.came_through(path); });
    return {.kind = ActionKind::forward, .fails_in = dice_.one_of(run)};
  }

  // Repeats a body with its captures while they are exact, and then without them.
  void keep_exact_captures() {
    const std::vector<bool> exact = exact_captures(scenario_, ranks_);
    std::vector<Script::Segment> kept;
    std::size_t capture = 0;
    for (const Script::Segment& segment : scenario_.script.segments) {
      const auto captures =
          static_cast<std::size_t>(std::ranges::count(segment.body, ActionKind::capture, &Action::kind));
      int good = 0;
      bool is_good = true;
      for (int i = 0; i < segment.iterations; ++i, capture += captures) {
        const auto first = exact.begin() + static_cast<std::ptrdiff_t>(capture);
        is_good = is_good && std::all_of(first, first + static_cast<std::ptrdiff_t>(captures), std::identity());
        good += is_good ? 1 : 0;
      }
      if (good > 0) kept.push_back({.iterations = good, .body = segment.body});
      if (good == segment.iterations) continue;
      Script::Segment& rest =
          kept.emplace_back(Script::Segment{.iterations = segment.iterations - good, .body = segment.body});
      std::erase(rest.body, Action{ActionKind::capture});
    }
    scenario_.script.segments = std::move(kept);
  }

  Scenario& scenario_;
  Dice& dice_;
  const Palette& palette_;
  const EngineGenerator& engine_;
  const int ranks_;
};

}  // namespace

void draw_script(Scenario& scenario, int ranks, Dice& dice, const Palette& palette) {
  ScriptDraw(scenario, ranks, dice, palette).draw();
}

}  // namespace shardproof::scenario

// The worker whose engines are mutated. It says which traits and passes its trainers have had, for mutants that hide.
#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "harness/faults/wrappers.hpp"
#include "harness/scenario/generator/generator.hpp"
#include "harness/scenario/generator/ingredients.hpp"
#include "tests/mutants/active.hpp"
#include "worker/program.hpp"

namespace shardproof {

namespace {

// The model, the plan and the calls so far of this thread's trainer.
thread_local Scenario so_far;

// Some ingredients need a feature, and are one trait together with it: residuals are a kind of module_groups.
std::size_t count_traits() {
  std::set<scenario::Trait> all = scenario::traits(so_far);
  all.erase(Feature(Feature::module_groups).name());
  all.erase(to_string(scenario::Ingredient::half_precision));
  return all.size();
}

// No scenario is drawn for some plans: those that an engine must refuse.
void publish_traits() {
  const bool is_drawn = std::ranges::count(scenario::drawn_kinds(), so_far.plan.engine.get()->kind()) > 0;
  mutants::set_traits(is_drawn ? count_traits() : 0);
}

void add(Action action) {
  so_far.script.segments.resize(1);
  so_far.script.segments.front().body.push_back(std::move(action));
  publish_traits();
}

class WatchedTrainer final : public TrainerWrapper {
 public:
  using TrainerWrapper::TrainerWrapper;
  ~WatchedTrainer() override {
    inner_.reset();
    mutants::end_trainer();
    so_far = {};
  }

  Reply perform(const Action& action, const Batch& batch) override {
    add(action);
    if (action.kind == ActionKind::forward) mutants::begin_pass();
    return TrainerWrapper::perform(action, batch);
  }
  Reply register_all_gather_extension(const ExtensionTarget& target, AllGatherExtension extension) override {
    add({.kind = ActionKind::extend});
    return TrainerWrapper::register_all_gather_extension(target, std::move(extension));
  }
  Reply register_gradient_hook(const HookTarget& target, GradientHook hook) override {
    add({.kind = ActionKind::register_hook, .hook = Hook()});
    return TrainerWrapper::register_gradient_hook(target, std::move(hook));
  }
};

std::unique_ptr<Subject> watched(std::unique_ptr<Subject> subject) {
  return with_trainer<WatchedTrainer>(
      altered(std::move(subject), {.model = [](const Model& model) { so_far = {.model = model}; },
                                   .plan =
                                       [](const Plan& plan) {
                                         so_far.plan = plan;
                                         publish_traits();
                                       }}));
}

PlayProgram mutant_program() {
  PlayProgram program = worker_program();
  for (auto& make : program.subjects) make = [make] { return watched(make()); };
  return program;
}

}  // namespace

}  // namespace shardproof

int main(int argc, char** argv) { return shardproof::play_main(argc, argv, shardproof::mutant_program()); }

#include "harness/scenario/validate_script.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "harness/scenario/flow.hpp"
#include "harness/scenario/refusal.hpp"
#include "harness/scenario/validate_extension.hpp"

namespace shardproof::scenario {

namespace {

// The place of a call of a script in its document.
struct CallPlace {
  std::string document;
  std::string_view call;

  std::string key(std::string_view name) const { return member_place(document, name); }
  std::string whole() const { return fmt::format("{} ({})", document, call); }
};

void require_ascending(const std::vector<int>& ranks, const std::string& place) {
  if (!std::ranges::is_sorted(ranks, std::less_equal<>()) || (!ranks.empty() && ranks.front() < 0))
    fail(place, "expected ranks from 0 on, ascending, each once");
}

void require_in_world(const std::vector<int>& ranks, int size, const std::string& place) {
  if (!ranks.empty() && ranks.back() >= size)
    fail(place, fmt::format("rank {} is not in a world of {}: use --ranks {} or more, or set \"world_size\"",
                            ranks.back(), size, ranks.back() + 1));
}

// The forwards of a script, by the module that runs and by its paths. Each is followed once.
class Forwards {
 public:
  explicit Forwards(const Scenario& scenario) : scenario_(scenario) {}

  void validate(const Action& action, const CallPlace& place) {
    const FlowCheck& forward = followed(action, place);
    for (const auto& [path, child] : action.paths) {
      if (!forward.came_through(path))
        fail(member_place(place.key("paths"), path), fmt::format("the choice \"{}\" does not run", path));
    }
    if (action.by_method && action.module.empty())
      fail(place.key("method"), "only a forward of one module can use a method: name the module");
    if (!action.fails_in) return;
    require_module(scenario_.model, *action.fails_in, place.key("fails_in"));
    if (!forward.came_through(*action.fails_in))
      fail(place.key("fails_in"), fmt::format("module \"{}\" must fail, but does not run", *action.fails_in));
  }

 private:
  const FlowCheck& followed(const Action& action, const CallPlace& place) {
    const std::string& path = action.module;
    for (const auto& [choice, child] : action.paths)
      require_child(choice, child, member_place(place.key("paths"), choice));
    const auto [at, fresh] =
        followed_.try_emplace(std::pair(path, action.paths), scenario_.model, scenario_.script.input, action.paths);
    FlowCheck& flow = at->second;
    if (!fresh) return flow;
    const Module& module = *find(scenario_.model, path);
    if (module.kind == ModuleKind::list)
      fail(place.whole(), fmt::format("\"{}\" is a list, which has no forward", path));
    const Flow output = flow.through(module, path, flow.input());
    if (output.tokens)
      fail(place.whole(), fmt::format("\"{}\" outputs tokens: add an embedding to make features of them", path));
    // Targets have as many classes as the whole model's output.
    const bool is_classified = scenario_.model.loss.kind == LossKind::cross_entropy;
    if (is_classified && output.features < output_features(scenario_))
      fail(place.whole(), fmt::format("\"{}\" outputs {} classes, but targets have {}", path, output.features,
                                      output_features(scenario_)));
    return flow;
  }

  void require_child(const std::string& path, const std::string& child, const std::string& place) const {
    require_module(scenario_.model, path, place);
    const Module& choice = *find(scenario_.model, path);
    if (choice.kind != ModuleKind::choice)
      fail(place, fmt::format("\"{}\" is a {}, not a choice", path, to_string(choice.kind)));
    if (std::ranges::find(choice.children, child, &Module::name) == choice.children.end())
      fail(place, no_such_child(choice, path, child));
  }

  const Scenario& scenario_;
  std::map<std::pair<std::string, std::map<std::string, std::string>>, FlowCheck> followed_;
};

CallPlace place_of_call(std::size_t segment, std::size_t call, const Action& action) {
  return {.document = fmt::format("script.segments[{}].body[{}]", segment, call), .call = to_string(action.kind)};
}

// Checks the order of a script's calls on one rank, without playing it.
class ScriptCheck {
 public:
  /// `ranks_differ`: some calls are for only some ranks, so an error must name the rank.
  ScriptCheck(const Scenario& scenario, Forwards& forwards, int rank, bool ranks_differ)
      : scenario_(scenario),
        forwards_(forwards),
        rank_(rank),
        ranks_differ_(ranks_differ),
        parameters_(parameters(scenario.model)) {}

  void validate() {
    const auto& segments = scenario_.script.segments;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      // Two iterations show every mistake that more iterations would.
      for (int iteration = 0; iteration < std::min(2, segments[s].iterations); ++iteration) {
        for (std::size_t call = 0; call < segments[s].body.size(); ++call) {
          const Action& action = segments[s].body[call];
          if (is_for(action, rank_)) play(action, place_of_call(s, call, action));
        }
      }
    }
  }

 private:
  void play(const Action& action, const CallPlace& place) {
    require_module(scenario_.model, action.module, place.key("module"));
    if (const std::string why = scenario_.plan.engine.get()->objection_to_call(action); !why.empty())
      fail(place.whole(), why);
    switch (action.kind) {
      case ActionKind::forward: forward_done_ = forward_done_ || !action.fails_in; [[fallthrough]];
      case ActionKind::evaluate:
        forwards_.validate(action, place);
        start(place);
        any_forward_ = any_forward_ || !action.fails_in;
        break;
      case ActionKind::backward:
        if (!std::exchange(forward_done_, false))
          fail(place.whole(), fmt::format("rank {} has run no forward before it", rank_));
        is_reducing_ = !is_last_;
        break;
      case ActionKind::step:
        if (forward_done_)
          refuse(place, "a step between a forward and its backward, which needs the parameters as they were");
        expect_gradients(place);
        break;
      case ActionKind::clip_grad_norm:
        if (!(action.max_norm > 0) || !(action.norm_type > 0))
          fail(place.whole(), fmt::format("expected a positive max_norm and norm_type, found {} and {}",
                                          action.max_norm, action.norm_type));
        expect_gradients(place);
        break;
      case ActionKind::capture:
        if (!any_forward_) refuse(place, "a capture before any forward, when there is no loss");
        expect_gradients(place);
        break;
      case ActionKind::zero_grad: is_reducing_ = false; break;
      case ActionKind::set_is_last_backward: is_last_ = action.value; break;
      case ActionKind::post_optim_event: break;
      // Also allowed after a forward: cases test that engines refuse it.
      case ActionKind::extend:
        if (!action.extension) fail(place.whole(), "says no extension");
        validate_extension(scenario_, *action.extension, place.whole());
        break;
      case ActionKind::register_hook: validate_hook(action, place); break;
      case ActionKind::materialize:
      case ActionKind::initialize:
        if (scenario_.plan.initialisation != Initialisation::meta)
          fail(place.whole(), "is for a plan whose initialisation is meta");
        expect_no_start(place);
        set_without_values(action.module, action.kind == ActionKind::materialize, place);
        break;
      case ActionKind::unshard: start(place); break;
      case ActionKind::wait_for_unshard:
      case ActionKind::reshard:
      case ActionKind::set_requires_gradient_sync:
      case ActionKind::set_requires_all_reduce:
      case ActionKind::set_reshard_after_backward:
      case ActionKind::set_unshard_in_backward: break;
    }
  }

  [[noreturn]] void refuse(const CallPlace& place, const std::string& why) const {
    fail(place.whole(), ranks_differ_ ? fmt::format("{} (rank {})", why, rank_) : why);
  }

  void validate_hook(const Action& action, const CallPlace& place) const {
    if (!action.hook) fail(place.whole(), "says no hook");
    const Hook& hook = *action.hook;
    const bool is_own = registers_compression(action);
    if (hook.point != HookPoint::reduction && (is_own || hook.kind == HookKind::sum))
      fail(place.key("hook"), fmt::format("a {} is for the point reduction only", to_string(hook.kind)));
    if (hook.fails_on.empty()) return;
    require_ascending(hook.fails_on, place.key("fails_on"));
    if (is_own) fail(place.key("fails_on"), "the engine's own hooks cannot fail as planned");
    if (hook.refused || hook.kind == HookKind::not_callable)
      fail(place.key("fails_on"), "a hook that engines refuse is never called");
  }

  // Sets all parameters at or under the path. There must be at least one.
  void set_without_values(const std::string& path, bool without, const CallPlace& place) {
    bool some = false;
    for (const ParameterShape& parameter : parameters_) {
      if (!is_at_or_under(parameter.name, path)) continue;
      some = true;
      if (without) without_values_.insert(parameter.name);
      else without_values_.erase(parameter.name);
    }
    if (!some) fail(place.key("module"), fmt::format("no parameter at or under \"{}\"", path));
  }

  // Engines refuse parameters that are still meta. But no engine can see that memory has no values, so this checks it.
  void start(const CallPlace& place) {
    has_started_ = true;
    const auto first = std::ranges::find_if(
        parameters_, [&](const ParameterShape& parameter) { return without_values_.contains(parameter.name); });
    if (first == parameters_.end()) return;
    refuse(place,
           fmt::format("parameter \"{}\" has memory but no values since its last materialize: initialize it first",
                       first->name));
  }

  void expect_no_start(const CallPlace& place) const {
    if (has_started_) refuse(place, "after a forward, evaluate or unshard, which has started training");
  }

  void expect_gradients(const CallPlace& place) const {
    if (is_reducing_) refuse(place, "after a backward that is not the last: no call has waited for its reductions yet");
  }

  const Scenario& scenario_;
  Forwards& forwards_;
  int rank_;
  bool ranks_differ_;
  std::vector<ParameterShape> parameters_;
  std::set<std::string> without_values_;  // parameters that have memory
  bool any_forward_ = false;
  bool has_started_ = false;  // for the engine
  bool forward_done_ = false;  // and no backward yet
  bool is_last_ = true;  // the value of the switch
  bool is_reducing_ = false;  // after a backward that was not the last
};

// The ranks of a divided copy must get the same input.
void require_inputs_of_copies(const Plan& plan, std::size_t inputs, const std::string& place) {
  const int parts = plan.engine.get()->ranks_per_copy(plan.mesh);
  if (parts == 1) return;
  const auto copies = static_cast<std::size_t>(plan.mesh.shape.front());
  if (inputs > copies)
    fail(place, fmt::format("{} inputs for {} copies of the model: give one for each copy", inputs, copies));
}

void validate_given(const Scenario& scenario) {
  const Script& script = scenario.script;
  if (!script.given.empty() && vocabulary(scenario.model) > 0)
    fail("script.given", "the model takes tokens, and tokens come only from the formula: leave `given` out");
  if (!script.given.empty() && any_call(script, [](const Action& action) { return action.micro_batch > 0; }))
    fail("script.given", "inputs of micro-batches come only from the formula: leave `given` out");
  const auto numbers = static_cast<std::size_t>(script.input[0] * script.input[1]);
  for (std::size_t iteration = 0; iteration < script.given.size(); ++iteration) {
    const auto& ranks = script.given[iteration];
    const std::string place = fmt::format("script.given[{}]", iteration);
    if (ranks.empty()) fail(place, "the input of at least one rank");
    require_inputs_of_copies(scenario.plan, ranks.size(), place);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].size() != numbers)
        fail(fmt::format("{}[{}]", place, rank), fmt::format("expected {} numbers for an input {}, found {}", numbers,
                                                             shardproof::to_string(script.input), ranks[rank].size()));
      for (const double number : ranks[rank]) {
        if (!(std::abs(number) <= std::numeric_limits<float>::max()))
          fail(fmt::format("{}[{}]", place, rank),
               fmt::format("expected a finite number of f32, at most {} in size, found {}",
                           std::numeric_limits<float>::max(), number));
      }
    }
  }
}

template <class Each>
void each_action(const Script& script, Each&& each) {
  for (std::size_t s = 0; s < script.segments.size(); ++s) {
    for (std::size_t call = 0; call < script.segments[s].body.size(); ++call) {
      const Action& action = script.segments[s].body[call];
      each(action, place_of_call(s, call, action));
    }
  }
}

// The parts of one copy compute together, so a call for one of them alone finds no partner, or the wrong one.
void require_whole_copies(const Scenario& scenario) {
  const int parts = scenario.plan.engine.get()->ranks_per_copy(scenario.plan.mesh);
  each_action(scenario.script, [&](const Action& action, const CallPlace& place) {
    for (const int rank : action.ranks) {
      for (int other = rank / parts * parts, end = other + parts; other < end; ++other) {
        if (std::ranges::find(action.ranks, other) == action.ranks.end())
          fail(place.key("ranks"),
               fmt::format("ranks {} and {} have parts of one copy, so they make the same calls: name both, or neither",
                           rank, other));
      }
    }
  });
}

std::set<int> named_ranks(const Script& script) {
  std::set<int> named;
  each_action(script, [&](const Action& action, const CallPlace& place) {
    require_ascending(action.ranks, place.key("ranks"));
    named.insert(action.ranks.begin(), action.ranks.end());
  });
  return named;
}

// Ranks that no call names make the same calls: the first of them is enough.
int first_unnamed(const std::set<int>& named) {
  int rank = 0;
  while (named.contains(rank)) ++rank;
  return rank;
}

}  // namespace

void validate_script(const Scenario& scenario) {
  validate_given(scenario);
  const auto& segments = scenario.script.segments;
  for (std::size_t s = 0; s < segments.size(); ++s) {
    if (segments[s].iterations < 1)
      fail(fmt::format("script.segments[{}].iterations", s),
           fmt::format("expected an integer of at least 1, found {}", segments[s].iterations));
  }
  require_whole_copies(scenario);
  Forwards forwards(scenario);
  std::set<int> ranks = named_ranks(scenario.script);
  const bool differ = !ranks.empty();
  const int unnamed = first_unnamed(ranks);
  if (ranks.empty() || unnamed < *ranks.rbegin()) ranks.insert(unnamed);
  for (const int rank : ranks) ScriptCheck(scenario, forwards, rank, differ).validate();
}

void require_world_size(const Scenario& scenario, int size) {
  if (scenario.world_size && *scenario.world_size != size)
    fail("world_size", fmt::format("is {0}, but the world has {1} rank{2}: use --ranks {0}, or leave --ranks out",
                                   *scenario.world_size, size, size == 1 ? "" : "s"));
  const std::vector<int>& shape = scenario.plan.mesh.shape;
  const auto in_mesh = std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
  const int imagined = scenario.device.imagined_ranks;
  const int ranks = imagined != 0 ? imagined : size;
  if (!shape.empty() && in_mesh != ranks) {
    const std::string sizes = fmt::format("the mesh has {} ranks, and the world has {}", in_mesh, ranks);
    if (scenario.world_size || imagined != 0) fail("plan.mesh.shape", sizes);
    fail("plan.mesh.shape", fmt::format("{}: use --ranks {}", sizes, in_mesh));
  }
  require_ranks_in_world(scenario.script, size);
}

void require_ranks_in_world(const Script& script, int size) {
  each_action(script, [&](const Action& action, const CallPlace& place) {
    require_in_world(action.ranks, size, place.key("ranks"));
    if (action.hook) require_in_world(action.hook->fails_on, size, place.key("fails_on"));
  });
}

void validate_script_in_world(const Scenario& scenario, int size) {
  require_ranks_in_world(scenario.script, size);
  const std::set<int> named = named_ranks(scenario.script);
  const int unnamed = first_unnamed(named);
  if (unnamed >= size) return;
  Forwards forwards(scenario);
  ScriptCheck(scenario, forwards, unnamed, !named.empty()).validate();
}

}  // namespace shardproof::scenario

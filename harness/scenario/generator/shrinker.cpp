#include "harness/scenario/generator/shrinker.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "harness/scenario/exactness.hpp"
#include "harness/scenario/generator/alterations.hpp"
#include "harness/scenario/generator/engine_generator.hpp"

namespace shardproof::scenario {

namespace {

class Variants {
 public:
  explicit Variants(const Staged& from)
      : from_(from),
        engine_(engine_generator(from.scenario.plan)),
        is_exact_(captures_exactly(from.scenario, from.ranks)) {}

  std::vector<Staged> all() && {
    for (int ranks = 1; ranks < from_.ranks; ++ranks) offer(ranks, [](Scenario&) {});
    segments();
    bodies();
    modules();
    groups();
    costs();
    plan();
    widths();
    details();
    return std::move(variants_);
  }

 private:
  static bool captures_exactly(const Scenario& scenario, int ranks) {
    const std::vector<bool> exact = exact_captures(scenario, ranks);
    return std::ranges::all_of(exact, std::identity());
  }

  void offer(const std::function<void(Scenario&)>& change) { offer(from_.ranks, change); }

  void offer(int ranks, const std::function<void(Scenario&)>& change) {
    Staged variant{.scenario = from_.scenario, .ranks = ranks};
    change(variant.scenario);
    drop_what_is_lost(variant.scenario, ranks);
    if (variant.ranks == from_.ranks && variant.scenario == from_.scenario) return;
    try {
      validate(variant.scenario);
    } catch (const std::invalid_argument&) {
      return;
    }
    if (is_exact_ && !captures_exactly(variant.scenario, ranks)) return;
    variants_.push_back(std::move(variant));
  }

  // -- The script

  void segments() {
    const std::size_t count = from_.scenario.script.segments.size();
    for (std::size_t i = 0; i < count; ++i) {
      offer([&](Scenario& s) { s.script.segments.erase(s.script.segments.begin() + static_cast<std::ptrdiff_t>(i)); });
    }
    for (std::size_t i = 0; i < count; ++i) {
      const int iterations = from_.scenario.script.segments[i].iterations;
      for (const int fewer : {1, iterations / 2, iterations - 1}) {
        if (fewer >= 1 && fewer < iterations) offer([&](Scenario& s) { s.script.segments[i].iterations = fewer; });
      }
    }
  }

  // Leaves out shorter and shorter ranges of calls.
  void bodies() {
    for (std::size_t i = 0; i < from_.scenario.script.segments.size(); ++i) {
      const std::size_t calls = from_.scenario.script.segments[i].body.size();
      for (std::size_t length = calls / 2; length > 0; length /= 2) {
        const std::size_t stride = length <= 2 ? 1 : length;
        for (std::size_t begin = 0; begin + length <= calls; begin += stride) {
          offer([&](Scenario& s) {
            auto& body = s.script.segments[i].body;
            const auto first = body.begin() + static_cast<std::ptrdiff_t>(begin);
            body.erase(first, first + static_cast<std::ptrdiff_t>(length));
          });
        }
      }
    }
  }

  // -- The model

  void modules() {
    for (const std::string& path : paths(from_.scenario.model)) {
      if (path.empty()) continue;
      offer([&](Scenario& s) {
        change_modules_at(s.model.root, [&](Module& module, const std::string& at) {
          std::erase_if(module.children, [&](const Module& child) { return child_path(at, child.name) == path; });
        });
      });
    }
    for (const std::string& path : paths(from_.scenario.model)) {
      const Module& module = *find(from_.scenario.model, path);
      if (!is_container(module.kind)) continue;
      if (!path.empty()) offer([&](Scenario& s) { put_children_in_place(s, path); });
      if (module.kind != ModuleKind::sequential) {
        offer([&](Scenario& s) {
          change_modules_at(s.model.root, [&](Module& changed, const std::string& at) {
            if (at == path) changed.kind = ModuleKind::sequential;
          });
        });
      }
    }
  }

  static void become_linear(Module& module) {
    if (module.kind != ModuleKind::convolution) return;
    module.kind = ModuleKind::linear;
    module.channels = 0;
  }

  // Changes all modules at once if that works, otherwise one after the other.
  void each_module(const std::function<void(Module&)>& change) {
    offer([&](Scenario& s) { change_modules(s.model.root, change); });
    for (const std::string& path : paths(from_.scenario.model)) {
      offer([&](Scenario& s) {
        change_modules_at(s.model.root, [&](Module& module, const std::string& at) {
          if (at == path) change(module);
        });
      });
    }
  }

  void widths() {
    const bool takes_tokens = vocabulary(from_.scenario.model) > 0;
    // No module becomes wider than the widest. So if all have one width, they only become narrower.
    std::int64_t widest = takes_tokens ? 1 : from_.scenario.script.input[1];
    visit(from_.scenario.model.root, "", [&](const Module& module, const std::string&) {
      widest = std::max({widest, module.in_features, module.out_features, module.features, module.vocabulary});
    });
    for (const std::int64_t width :
         {std::int64_t{1}, std::int64_t{2}, std::int64_t{3}, widest / 2, widest - 1, widest}) {
      if (width < 1 || width > widest) continue;
      offer([&](Scenario& s) {
        change_modules(s.model.root, [&](Module& module) {
          for (std::int64_t* features : {&module.in_features, &module.out_features, &module.features}) {
            if (*features > 0) *features = width;
          }
          if (module.kind == ModuleKind::convolution) module.channels = std::gcd(module.channels, module.in_features);
          if (module.kind == ModuleKind::embedding) module.vocabulary = std::max<std::int64_t>(width, 1);
        });
        if (!takes_tokens) s.script.input[1] = width;
      });
    }
    for (const std::int64_t batch : {std::int64_t{1}, from_.scenario.script.input[0] - 1}) {
      if (batch >= 1 && batch < from_.scenario.script.input[0]) offer([&](Scenario& s) { s.script.input[0] = batch; });
    }
    if (takes_tokens && from_.scenario.script.input[1] > 1) {
      offer([&](Scenario& s) {
        s.script.input[1] = 1;
        change_modules(s.model.root,
                       [](Module& module) { module.positions = std::min<std::int64_t>(module.positions, 1); });
      });
    }
  }

  void details() {
    each_module([](Module& module) { module.forward_sleep = module.backward_sleep = 0; });
    each_module([](Module& module) { module.frozen = false; });
    each_module(become_linear);
    each_module([](Module& module) { module.channels = std::min<std::int64_t>(module.channels, 1); });
    each_module([](Module& module) { module.tied_to.clear(); });
    each_module([](Module& module) { module.tensor = TensorKind::plain; });
    each_module([](Module& module) { module.bias = !is_linear_map(module.kind); });
    each_module([](Module& module) { module.positions = 0; });
    each_module([](Module& module) { module.contiguous = true; });
    each_module([](Module& module) { module.scalar = false; });
    for (const Nanoseconds all : {Nanoseconds{0}, Nanoseconds{1'000'000}}) {
      each_module([&](Module& module) { module.forward_sleep = std::min(module.forward_sleep, all); });
      each_module([&](Module& module) { module.backward_sleep = std::min(module.backward_sleep, all); });
    }
    offer(number_modules);
    offer([](Scenario& s) { s.model.loss = {}; });
    offer([](Scenario& s) { s.model.loss.divisor = 1; });
    offer([](Scenario& s) { s.model.init_divisor = Model().init_divisor; });
    offer([](Scenario& s) { s.model.init = Model().init; });
    offer([](Scenario& s) { s.script.input_divisor = Script().input_divisor; });
    offer([](Scenario& s) { s.script.given.clear(); });
    offer([](Scenario& s) { s.script.keep_tensors = false; });
    for (std::size_t i = 0; i < from_.scenario.script.segments.size(); ++i) {
      for (std::size_t call = 0; call < from_.scenario.script.segments[i].body.size(); ++call) {
        offer([&](Scenario& s) { s.script.segments[i].body[call].module.clear(); });
        offer([&](Scenario& s) { s.script.segments[i].body[call].async = false; });
        offer([&](Scenario& s) { s.script.segments[i].body[call].fails_in.reset(); });
        details_of(from_.scenario.script.segments[i].body[call], [&](const std::function<void(Action&)>& change) {
          offer([&](Scenario& s) { change(s.script.segments[i].body[call]); });
        });
      }
    }
  }

  using OfferCall = std::function<void(const std::function<void(Action&)>&)>;

  static void details_of(const Action& action, const OfferCall& offer) {
    offer([](Action& a) { a.to_zero = false; });
    offer([](Action& a) { a.paths.clear(); });
    for (const auto& [choice, child] : action.paths) offer([&lost = choice](Action& a) { a.paths.erase(lost); });
    offer([](Action& a) { a.ranks.clear(); });
    for (const int rank : action.ranks) offer([=](Action& a) { std::erase(a.ranks, rank); });
    if (!action.hook) return;
    // A hook keeps its point, and a hook that engines must refuse stays refused.
    offer([](Action& a) { a.hook->fails_on.clear(); });
    offer([](Action& a) { a.hook->kind = HookKind::plain; });
    offer([](Action& a) { a.hook->direct = false; });
    offer([](Action& a) { a.hook->state = 0; });
  }

  // -- The plan

  void groups() {
    engine_.offer_smaller_groups(from_.scenario.plan,
                                 [&](const auto& change) { offer([&](Scenario& s) { change(s.plan); }); });
  }

  void plan() {
    offer([](Scenario& s) { s.plan.mesh = {}; });
    offer([](Scenario& s) { s.plan.mixed_precision = {}; });
    offer([](Scenario& s) { s.plan.mixed_precision.param.reset(); });
    offer([](Scenario& s) { s.plan.mixed_precision.reduce.reset(); });
    offer([](Scenario& s) { s.plan.mixed_precision.output.reset(); });
    offer([](Scenario& s) { s.plan.mixed_precision.cast_forward_inputs = true; });
    offer([](Scenario& s) { s.plan.initialisation = Initialisation::direct; });
    offer([](Scenario& s) { s.plan.optimizer = {}; });
    offer([](Scenario& s) { s.plan.optimizer = {.kind = s.plan.optimizer.kind, .rate = s.plan.optimizer.rate}; });
    engine_.offer_smaller_options(from_.scenario.plan,
                                  [&](const auto& change) { offer([&](Scenario& s) { change(s.plan); }); });
  }

  // -- Costs

  // Whether an entry is the cost 0 of agreeing on sizes. Variants keep this entry: engines agree in different ways, and
  // only cost 0 keeps them comparable.
  static bool is_nobodys(const auto& entry) { return entry.first.second == extension_sizes_tag && entry.second == 0; }

  void costs() {
    offer([](Scenario& s) {
      s.costs = {};
      s.device = {.imagined_ranks = s.device.imagined_ranks};
    });
    offer([](Scenario& s) { s.device.imagined_ranks = 0; });
    offer([](Scenario& s) { s.device.single_stream = false; });
    offer([](Scenario& s) { s.device.separate_resources = false; });
    offer([](Scenario& s) { s.device.hide_undeclared_memory = false; });
    offer([](Scenario& s) { s.costs.host_call = 0; });
    offer([](Scenario& s) { s.costs.work.clear(); });
    offer([](Scenario& s) { s.costs.labelled_work.clear(); });
    offer([](Scenario& s) {
      std::erase_if(s.costs.tagged_collectives, [](const auto& entry) { return !is_nobodys(entry); });
    });
    each_entry(&CostModel::collectives);
    each_entry(&CostModel::work);
    each_entry(&CostModel::labelled_work);
    each_entry(&CostModel::tagged_collectives);
    for (const auto& [kind, cost] : from_.scenario.costs.collectives) {
      offer([&which = kind](Scenario& s) { s.costs.collectives[which].per_kib = 0; });
      offer([&which = kind](Scenario& s) {
        Nanoseconds& fixed = s.costs.collectives[which].fixed;
        fixed = std::min(fixed, Nanoseconds{1'000'000});
      });
    }
  }

  template <class Map>
  void each_entry(Map CostModel::* map) {
    for (const auto& entry : from_.scenario.costs.*map) {
      if constexpr (std::is_same_v<Map, decltype(CostModel::tagged_collectives)>) {
        if (is_nobodys(entry)) continue;
      }
      offer([&, &which = entry.first](Scenario& s) { (s.costs.*map).erase(which); });
    }
  }

  const Staged& from_;
  const EngineGenerator& engine_;
  const bool is_exact_;
  std::vector<Staged> variants_;
};

}  // namespace

std::vector<Staged> smaller(const Staged& staged) { return Variants(staged).all(); }

}  // namespace shardproof::scenario

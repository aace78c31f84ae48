// A minimal fully sharded engine, as a program that a rank runs: linear layers and ReLUs, SGD and Adam, one collective
// for each parameter.
#include <shardproof.h>

#include <algorithm>
#include <exception>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "layers.hpp"

namespace my_engine {

using Json = nlohmann::json;

class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void refuse(const std::string& where, const Json& what) {
  throw Unsupported(where + ": " + what.dump() + " is not supported by this engine");
}

/// An engine that ignores an unknown key trains something else than the script asks for.
void expect_keys(const Json& json, const std::string& where, const std::vector<std::string>& known) {
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(known, key) == known.end()) refuse(where, {{key, value}});
  }
}

std::string join(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

bool holds(const Json& group, const std::string& path) {
  const std::string module = group.at("modules").at(0);
  return module.empty() || (path + ".").starts_with(module + ".");
}

/// The engine on one rank.
class Trainer {
 public:
  Trainer(const Json& model, const Json& plan, const shardproof_engine_context& engine_context)
      : device_(engine_context), groups_(wrapped_by(plan)), init_divisor_(model.value("init_divisor", 8)) {
    expect_keys(model, "model", {"root", "loss", "init_divisor"});
    const Json optimizer = plan.value("optimizer", Json{{"kind", "sgd"}}),
               loss = model.value("loss", Json{{"kind", "sum"}});
    if (plan.contains("mesh")) check_mesh(plan.at("mesh").at("shape"));
    check_groups(groups_);
    read_optimizer(optimizer);
    loss_kind_ = loss.at("kind");
    if (loss_kind_ != "sum" && loss_kind_ != "sum_of_squares" && loss_kind_ != "dot") refuse("model.loss", loss);
    expect_keys(loss, "model.loss", {"kind", "divisor", "seed"});
    loss_seed_ = loss.value("seed", 7);
    loss_divisor_ = loss.value("divisor", 1.0f);
    read(model.at("root"), "");
  }

  void perform(const Json& action, const shardproof_tensor& input) {
    if (action == "forward" || action == "evaluate") {
      if (out_) refuse("script", "a second forward before the backward");
      forward(input);
      if (action == "forward") return;
      for (const auto& layer : layers_) layer->forget();  // no backward follows
      out_ = {};
    } else if (action == "backward") {
      backward();
    } else if (action == "step") {
      for (Parameter& parameter : parameters_) parameter.step(optimizer_);
    } else if (action == "zero_grad") {
      for (Parameter& parameter : parameters_) parameter.zero_grad();
    } else {
      refuse("script", action);
    }
  }

  shardproof_tensor loss() { return tensor(loss_, scalar_); }

  const std::vector<shardproof_parameter>& parameters() {
    views_.clear();
    for (Parameter& parameter : parameters_) views_.push_back(parameter.view());
    return views_;
  }

 private:
  static const Json& wrapped_by(const Json& plan) {
    expect_keys(plan, "plan", {"mesh", "optimizer", "fully_shard"});
    const Json& section = plan.at("fully_shard");
    expect_keys(section, "plan.fully_shard", {"wrap", "backward_prefetch"});
    return section.at("wrap");
  }

  void check_mesh(const Json& shape) const {
    if (shape.size() > 1) refuse("plan.mesh.shape", shape);
    if (shape.at(0) != device_.ranks())
      throw std::runtime_error("plan.mesh: " + shape.at(0).dump() + " ranks, in a world of " +
                               std::to_string(device_.ranks()));
  }

  static void check_groups(const Json& groups) {
    std::set<std::string> wrapped;
    for (const Json& group : groups) {
      expect_keys(group, "plan.fully_shard.wrap", {"modules", "reshard_after_forward"});
      const std::string module = group.at("modules").at(0);
      if (group.at("modules").size() > 1) refuse("plan.fully_shard.wrap", group);
      if (!wrapped.insert(module).second)
        throw std::runtime_error("plan.fully_shard.wrap: \"" + module + "\" is wrapped twice");
    }
  }

  void read_optimizer(const Json& optimizer) {
    const std::string kind = optimizer.at("kind");
    if (kind != "sgd" && kind != "adam" && kind != "adamw") refuse("plan.optimizer", optimizer);
    expect_keys(optimizer, "plan.optimizer", {"kind", "rate", "beta1", "beta2", "epsilon", "weight_decay"});
    optimizer_.is_adam = kind != "sgd";
    optimizer_.decays_gradient = kind == "adam";
    optimizer_.rate = optimizer.value("rate", optimizer_.rate);
    optimizer_.beta1 = optimizer.value("beta1", optimizer_.beta1);
    optimizer_.beta2 = optimizer.value("beta2", optimizer_.beta2);
    optimizer_.epsilon = optimizer.value("epsilon", optimizer_.epsilon);
    optimizer_.decay = optimizer.value("weight_decay", optimizer_.decay);
  }

  void read(const Json& module, const std::string& path) {
    const std::string kind = module.at("kind");
    if (kind == "sequential") {
      expect_keys(module, path, {"name", "kind", "children"});
      for (const Json& child : module.at("children")) read(child, join(path, child.at("name")));
    } else if (kind == "relu") {
      layers_.push_back(std::make_unique<Relu>(device_, path));
    } else if (kind == "linear") {
      if (!module.value("contiguous", true)) refuse(join(path, "weight"), {{"contiguous", false}});
      expect_keys(module, path, {"name", "kind", "in_features", "out_features", "bias", "contiguous"});
      const Json* group = group_of(path);
      const std::int64_t in = module.at("in_features"), out = module.at("out_features");
      Parameter& weight = add(join(path, "weight"), {out, in}, group);
      Parameter* bias = module.value("bias", true) ? &add(join(path, "bias"), {out}, group) : nullptr;
      layers_.push_back(std::make_unique<Linear>(device_, path, in, out, weight, bias, reshards(group)));
      features_ = static_cast<std::size_t>(out);
    } else {
      refuse(path, module);
    }
  }

  /// The innermost group around a module, or none: the plan has children before their parents.
  const Json* group_of(const std::string& path) const {
    for (const Json& group : groups_) {
      if (holds(group, path)) return &group;
    }
    return nullptr;
  }

  bool reshards(const Json* group) const {
    if (group == nullptr) return false;
    const Json how = group->value("reshard_after_forward", Json("automatic"));
    if (how.is_number()) refuse("plan.fully_shard.wrap", *group);
    if (how.is_boolean()) return how;
    const auto is_around = [&](const Json& other) {
      return &other != group && holds(other, group->at("modules").at(0));
    };
    return std::ranges::any_of(groups_, is_around);  // automatic
  }

  Parameter& add(const std::string& name, const Shape& shape, const Json* group) {
    Sharing sharing;
    if (group != nullptr) sharing = {group->at("modules").at(0), device_.ranks(), device_.rank()};
    return parameters_.emplace_back(device_, name, sharing, shape, parameters_.size() + 1, init_divisor_);
  }

  void forward(const shardproof_tensor& input) {
    Floats x = device_.borrow(input);
    for (const auto& layer : layers_) x = layer->forward(x);
    out_ = x;
    loss_ = device_.allocate(SHARDPROOF_MEMORY_ACTIVATION, "loss", 1);
    device_.submit(SHARDPROOF_WORK_LOSS, "loss", {x.all()}, {loss_.all()}, [&] {
      *loss_.data = 0;
      for (std::size_t i = 0; i < x.count; ++i) *loss_.data += x.data[i] * factor(i);
    });
  }

  void backward() {
    Floats slope = device_.allocate(SHARDPROOF_MEMORY_ACTIVATION, "loss slope", out_.count);
    device_.submit(SHARDPROOF_WORK_LOSS, "loss slope", {out_.all()}, {slope.all()}, [&] {
      for (std::size_t i = 0; i < slope.count; ++i)
        slope.data[i] = (loss_kind_ == "sum_of_squares" ? 2 : 1) * factor(i);
    });
    out_ = {};
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) slope = (*layer)->backward(slope);
  }

  /// The loss is a sum over all outputs, each times 1, times itself, or times an element of a row by formula.
  float factor(std::size_t output) const {
    if (loss_kind_ == "sum") return 1;
    return (loss_kind_ == "dot" ? by_formula(loss_seed_, output % features_, 1) : out_.data[output]) / loss_divisor_;
  }

  Device device_;
  Json groups_;  // of the plan
  int init_divisor_;
  Optimizer optimizer_;
  std::string loss_kind_;
  std::size_t loss_seed_ = 0;
  float loss_divisor_ = 1;
  std::size_t features_ = 0;  // of an output
  std::list<Parameter> parameters_;  // in order of registration
  std::vector<std::unique_ptr<Layer>> layers_;
  Floats out_, loss_;
  Shape scalar_;
  std::vector<shardproof_parameter> views_;
};

}  // namespace my_engine

/// The harness calls the functions of the table with this.
struct shardproof_trainer {
  const shardproof_harness& harness;
  my_engine::Trainer engine;
};

namespace {

using my_engine::Json;

/// No exception crosses the boundary.
template <class Body>
shardproof_status answer(const shardproof_harness& harness, shardproof_reply* reply, Body&& body) {
  try {
    body();
    return SHARDPROOF_OK;
  } catch (const my_engine::Unsupported& error) {
    harness.fail(reply, error.what());
    return SHARDPROOF_UNSUPPORTED;
  } catch (const std::exception& error) {
    harness.fail(reply, error.what());
    return SHARDPROOF_FAILED;
  }
}

shardproof_status create(void*, const char* model, const char* plan, const shardproof_engine_context* engine_context,
                         shardproof_trainer** trainer, shardproof_reply* reply) {
  return answer(*engine_context->harness, reply, [&] {
    *trainer =
        new shardproof_trainer{*engine_context->harness, {Json::parse(model), Json::parse(plan), *engine_context}};
  });
}

shardproof_status destroy(shardproof_trainer* trainer, shardproof_reply*) {
  delete trainer;
  return SHARDPROOF_OK;
}

shardproof_status perform(shardproof_trainer* trainer, const char* action, const shardproof_tensor* input,
                          const shardproof_tensor*, shardproof_reply* reply) {
  return answer(trainer->harness, reply, [&] { trainer->engine.perform(Json::parse(action), *input); });
}

shardproof_status loss(shardproof_trainer* trainer, shardproof_tensor* loss, shardproof_reply*) {
  *loss = trainer->engine.loss();
  return SHARDPROOF_OK;
}

shardproof_status parameters(shardproof_trainer* trainer, const shardproof_parameter** parameters, std::size_t* count,
                             shardproof_reply*) {
  const std::vector<shardproof_parameter>& views = trainer->engine.parameters();
  *parameters = views.data();
  *count = views.size();
  return SHARDPROOF_OK;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const features[] = {"thread_ranks", nullptr};
  const shardproof_claim claims[] = {{.engine = "fully_shard", .features = features}};
  const shardproof_subject table{.abi_version = SHARDPROOF_ABI_VERSION,
                                 .size = sizeof(shardproof_subject),
                                 .name = "my_engine",
                                 .version = "1",
                                 .claims = claims,
                                 .claim_count = std::size(claims),
                                 .context = nullptr,
                                 .prepare = nullptr,
                                 .fork = nullptr,
                                 .create = create,
                                 .destroy = destroy,
                                 .perform = perform,
                                 .extend = nullptr,
                                 .register_gradient_hook = nullptr,
                                 .loss = loss,
                                 .parameters = parameters,
                                 .compiled_plan = nullptr,
                                 .keeps_threads = 0};
  return shardproof_worker_main(argc, argv, &table);
}

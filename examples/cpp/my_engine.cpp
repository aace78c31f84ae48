// A minimal fully sharded engine, as a program that a rank runs: linear layers and ReLUs, SGD, one collective for each parameter.
#include <shardproof.h>

#include <exception>
#include <list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "layers.hpp"

namespace my_engine {

using Json = nlohmann::json;

[[noreturn]] void refuse(const std::string& where, const Json& what) {
  throw std::runtime_error(where + ": " + what.dump() + " is more than this engine can");
}

/// An engine that passes over what it does not know trains something else than it was asked to.
void expect_keys(const Json& json, const std::string& where, const std::vector<std::string>& known) {
  for (const auto& [key, value] : json.items()) {
    if (std::ranges::find(known, key) == known.end()) refuse(where, {{key, value}});
  }
}

std::string join(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

/// The engine on one rank.
class Trainer {
 public:
  Trainer(const Json& model, const Json& plan, const shardproof_seat& seat)
      : device_(seat), plan_(plan), init_divisor_(model.value("init_divisor", 8)) {
    expect_keys(model, "model", {"root", "loss", "init_divisor"});
    expect_keys(plan, "plan", {"engine", "mesh", "wrap", "backward_prefetch", "optimizer"});
    const Json optimizer = plan.value("optimizer", Json{{"kind", "sgd"}}), loss = model.value("loss", Json{{"kind", "sum"}});
    if (plan.at("engine") != "fully_shard") refuse("plan.engine", plan.at("engine"));
    if (plan.contains("mesh") && plan.at("mesh").at("shape").size() > 1) refuse("plan.mesh", plan.at("mesh"));
    if (optimizer.at("kind") != "sgd") refuse("plan.optimizer", optimizer);
    if (loss.at("kind") != "sum" && loss.at("kind") != "dot") refuse("model.loss", loss);
    expect_keys(loss, "model.loss", {"kind", "divisor", "seed"});
    rate_ = optimizer.value("rate", 0.5f);
    if (loss.at("kind") == "dot") dot_seed_ = loss.value("seed", 7);
    dot_divisor_ = loss.value("divisor", 1.0f);
    read(model.at("root"), "");
  }

  void perform(const Json& action, const shardproof_tensor& input) {
    if (action == "forward" || action == "evaluate") {
      forward(input);
      if (action == "forward") return;
      for (const auto& layer : layers_) layer->forget();  // no backward will come
    } else if (action == "backward") {
      backward();
    } else if (action == "step") {
      for (Parameter& parameter : parameters_) parameter.step(rate_);
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
  void read(const Json& module, const std::string& path) {
    const std::string kind = module.at("kind");
    if (kind == "sequential") {
      expect_keys(module, path, {"name", "kind", "children"});
      for (const Json& child : module.at("children")) read(child, join(path, child.at("name")));
    } else if (kind == "relu") {
      layers_.push_back(std::make_unique<Relu>(device_, path));
    } else if (kind == "linear") {
      expect_keys(module, path, {"name", "kind", "in_features", "out_features", "bias"});
      const Json& group = group_of(path);
      const std::int64_t in = module.at("in_features"), out = module.at("out_features");
      Parameter& weight = add(join(path, "weight"), {out, in}, group);
      Parameter* bias = module.value("bias", true) ? &add(join(path, "bias"), {out}, group) : nullptr;
      layers_.push_back(std::make_unique<Linear>(device_, path, in, out, weight, bias, reshards(group)));
      features_ = static_cast<std::size_t>(out);
    } else {
      refuse(path, module);
    }
  }

  /// The innermost around a module: children stand before their parents.
  const Json& group_of(const std::string& path) const {
    for (const Json& group : plan_.at("wrap")) {
      expect_keys(group, "plan.wrap", {"modules", "reshard_after_forward"});
      const std::string module = group.at("modules").at(0);
      if (group.at("modules").size() > 1) refuse("plan.wrap", group);
      if (module.empty() || (path + ".").starts_with(module + ".")) return group;
    }
    throw std::runtime_error(path + ": what no group holds is more than this engine can");
  }

  static bool reshards(const Json& group) {
    const Json how = group.value("reshard_after_forward", Json("automatic"));
    if (how.is_number()) refuse("plan.wrap", group);
    return how.is_boolean() ? how.get<bool>() : group.at("modules").at(0) != "";  // if nothing is said: but not the root
  }

  Parameter& add(const std::string& name, const Shape& shape, const Json& group) {
    return parameters_.emplace_back(device_, name, group.at("modules").at(0), shape, parameters_.size() + 1, init_divisor_);
  }

  void forward(const shardproof_tensor& input) {
    Floats x = device_.borrow(input);
    for (const auto& layer : layers_) x = layer->forward(x);
    outputs_ = x.count;
    loss_ = device_.allocate(SHARDPROOF_MEMORY_ACTIVATION, "loss", 1);
    device_.submit(SHARDPROOF_WORK_LOSS, "loss", {x.all()}, {loss_.all()}, [&] {
      *loss_.data = 0;
      for (std::size_t i = 0; i < x.count; ++i) *loss_.data += x.data[i] * loss_slope(i);
    });
  }

  void backward() {
    Floats slope = device_.allocate(SHARDPROOF_MEMORY_ACTIVATION, "loss slope", outputs_);
    device_.submit(SHARDPROOF_WORK_LOSS, "loss slope", {}, {slope.all()}, [&] {
      for (std::size_t i = 0; i < slope.count; ++i) slope.data[i] = loss_slope(i);
    });
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) slope = (*layer)->backward(slope);
  }

  /// The loss is the sum of the model's outputs, or of each times an element of a row that is given by formula.
  float loss_slope(std::size_t output) const { return dot_seed_ ? by_formula(*dot_seed_, output % features_, 1) / dot_divisor_ : 1; }

  Device device_;
  Json plan_;
  int init_divisor_;
  float rate_ = 0;
  std::optional<std::size_t> dot_seed_;  // of the row; none: the loss is the sum of all outputs
  float dot_divisor_ = 1;
  std::size_t features_ = 0, outputs_ = 0;
  std::list<Parameter> parameters_;  // in order of registration
  std::vector<std::unique_ptr<Layer>> layers_;
  Floats loss_;
  Shape scalar_;
  std::vector<shardproof_parameter> views_;
};

}  // namespace my_engine

/// What the functions of the table are called with.
struct shardproof_trainer {
  const shardproof_harness& harness;
  my_engine::Trainer engine;
};

namespace {

using my_engine::Json;

/// Nothing is thrown across the boundary.
template <class Body>
int answer(const shardproof_harness& harness, shardproof_reply* reply, Body&& body) {
  try {
    body();
    return 0;
  } catch (const std::exception& error) {
    harness.fail(reply, error.what());
    return 1;
  }
}

int create(void*, const char* model, const char* plan, const shardproof_seat* seat, shardproof_trainer** trainer, shardproof_reply* reply) {
  return answer(*seat->harness, reply,
                [&] { *trainer = new shardproof_trainer{*seat->harness, {Json::parse(model), Json::parse(plan), *seat}}; });
}

int destroy(shardproof_trainer* trainer, shardproof_reply*) {
  delete trainer;
  return 0;
}

int perform(shardproof_trainer* trainer, const char* action, const shardproof_tensor* input, const shardproof_tensor*,
            shardproof_reply* reply) {
  return answer(trainer->harness, reply, [&] { trainer->engine.perform(Json::parse(action), *input); });
}

int loss(shardproof_trainer* trainer, shardproof_tensor* loss, shardproof_reply*) {
  *loss = trainer->engine.loss();
  return 0;
}

int parameters(shardproof_trainer* trainer, const shardproof_parameter** parameters, std::size_t* count, shardproof_reply*) {
  const std::vector<shardproof_parameter>& views = trainer->engine.parameters();
  *parameters = views.data();
  *count = views.size();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const features[] = {"fully_shard", "thread_ranks", nullptr};
  const shardproof_subject table{.abi_version = SHARDPROOF_ABI_VERSION,
                                 .size = sizeof(shardproof_subject),
                                 .name = "my_engine",
                                 .version = "1",
                                 .capabilities = features,
                                 .context = nullptr,
                                 .prepare = nullptr,
                                 .fork = nullptr,
                                 .create = create,
                                 .destroy = destroy,
                                 .perform = perform,
                                 .extend = nullptr,
                                 .loss = loss,
                                 .parameters = parameters};
  return shardproof_worker_main(argc, argv, &table);
}

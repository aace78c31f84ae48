#include "tests/toy_engine/engine.hpp"

#include <cstdint>
#include <exception>
#include <memory>
#include <vector>

#include "fixtures/engines/common/trainer.hpp"
#include "tests/toy_engine/plan.hpp"

namespace shardproof::toy {

namespace {

using engines::EngineTrainer;

class ToyTrainer final : public EngineTrainer {
 public:
  ToyTrainer(const Model& model, const Plan& plan, const EngineContext& engine_context)
      : EngineTrainer(ToyPlan::name, model, plan, engine_context), world_(engine_context.world) {
    if (plan.initialisation == Initialisation::meta) return;
    stored().materialize("");
    stored().initialise("");
  }

  ~ToyTrainer() override {
    try {
      zero_grad(false);
    } catch (const std::exception&) {
      // The device is out of order: gradients go back as they are dropped.
    }
  }

 private:
  bool perform_own(const Action& /*action*/) override { return false; }
  engines::ModuleHooks hooks(engines::Tape& /*tape*/, bool /*evaluates*/) override {
    return {.before = [](const std::string&, engines::Variable input) { return input; },
            .after = [](const std::string&, engines::Variable output) { return output; }};
  }

  // Gradients of earlier backwards are averages already, and the same on all ranks. Averaging them again changes
  // nothing.
  void end_backward() override {
    if (world_.size() == 1) return;
    std::vector<Tensor> gradients;
    std::int64_t length = 0;
    for (const engines::Parameter& parameter : network().parameters()) {
      if (!parameter.gradient.defined()) continue;
      gradients.push_back(parameter.gradient.flatten());
      length += parameter.gradient.numel();
    }
    const std::string& bucket = plan().engine.as<ToyPlan>()->bucket;
    const Tensor flat = device().empty(Device::compute, DType::f32, {length}, MemoryClass::reduce_input, bucket);
    std::vector<Tensor> parts;
    std::int64_t start = 0;
    for (const Tensor& gradient : gradients) {
      parts.push_back(flat.narrow(start, gradient.numel()));
      start += gradient.numel();
    }
    copy(WorkKind::reduce_copy_in, bucket, gradients, parts);
    world_.run(Device::compute,
               {.kind = CollectiveKind::all_reduce, .op = ReduceOp::avg, .in = flat, .out = flat, .tag = bucket});
    copy(WorkKind::reduce_copy_out, bucket, parts, gradients);
    device().release(Device::compute, flat.storage());
  }

  void copy(WorkKind kind, const std::string& label, const std::vector<Tensor>& from, const std::vector<Tensor>& to) {
    device().submit(Device::compute, {.kind = kind,
                                      .label = label,
                                      .reads = from,
                                      .writes = to,
                                      .run = [from, to](const Kernels& kernels, NativeStream stream) {
                                        for (std::size_t i = 0; i < from.size(); ++i)
                                          kernels.copy(stream, to[i], from[i]);
                                      }});
  }

  Communicator& world_;
};

std::unique_ptr<engines::EngineTrainer> make(const Model& model, const Plan& plan,
                                             const EngineContext& engine_context) {
  return std::make_unique<ToyTrainer>(model, plan, engine_context);
}

}  // namespace

engines::Engine toy_engine() {
  return {.kind = ToyPlan::name,
          .features = {Feature::timeline, Feature::serial, Feature::hidden_memory, Feature::thread_ranks,
                       ToyFeature::named_bucket},
          .make = make};
}

}  // namespace shardproof::toy

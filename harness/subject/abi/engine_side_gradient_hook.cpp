#include "harness/subject/abi/engine_side_gradient_hook.hpp"

namespace shardproof::subject::abi {

GradientHook engine_side_gradient_hook(const EngineSideDevice& device, const shardproof_gradient_hook& hook) {
  GradientHook borrowed{.state = hook.state, .call = {}};
  if (hook.call == nullptr) return borrowed;
  borrowed.call = [&device, hook](std::uint64_t state, const HookedGradient& operands, Stream stream) {
    Shapes shapes;
    const shardproof_tensor gradient = device.give(operands.gradient, shapes),
                            output = device.give(operands.output, shapes);
    if (hook.call(hook.context, state, operands.label.c_str(), &gradient, &output, stream.id) == SHARDPROOF_OK)
      return Reply();
    return Reply::failed(hook.error(hook.context));
  };
  return borrowed;
}

}  // namespace shardproof::subject::abi

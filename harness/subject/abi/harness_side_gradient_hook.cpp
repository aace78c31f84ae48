#include "harness/subject/abi/harness_side_gradient_hook.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "harness/subject/abi/demands.hpp"

namespace shardproof::subject::abi {

HarnessSideGradientHook::HarnessSideGradientHook(HarnessSide& engine_context, GradientHook hook)
    : engine_context_(engine_context), hook_(std::move(hook)) {
  in_c_ = {.context = this, .state = hook_.state, .call = nullptr, .error = [](void* self) {
             auto& it = *static_cast<HarnessSideGradientHook*>(self);
             return it.engine_context_.thread().is_this() ? it.error_.c_str() : OwnThread::objection;
           }};
  if (!hook_.call) return;
  in_c_.call = [](void* self, std::uint64_t state, const char* label, const shardproof_tensor* gradient,
                  const shardproof_tensor* output, std::uint32_t stream) -> shardproof_status {
    auto& it = *static_cast<HarnessSideGradientHook*>(self);
    if (!it.engine_context_.thread().is_this()) return SHARDPROOF_FAILED;
    const shardproof_status status =
        it.engine_context_.guarded([&] { it.call(state, &there(label, "the label"), gradient, output, stream); });
    if (status != SHARDPROOF_OK) it.error_ = it.engine_context_.error();
    return status;
  };
}

void HarnessSideGradientHook::call(std::uint64_t state, std::string label, const shardproof_tensor* gradient,
                                   const shardproof_tensor* output, std::uint32_t stream) const {
  if (is_withdrawn_)
    throw std::logic_error(fmt::format("a gradient hook is called for \"{}\", but its registration has failed", label));
  const HookedGradient operands{.label = std::move(label),
                                .gradient = operand(gradient, "the gradient"),
                                .output = operand(output, "the output")};
  const Reply reply = hook_.call(state, operands, engine_context_.stream(stream, "the hook's stream"));
  if (!reply.ok()) throw std::runtime_error(reply.error());
}

// A hook works on a stream, so its operands must be in a buffer: a GPU cannot reach host memory.
Tensor HarnessSideGradientHook::operand(const shardproof_tensor* tensor, std::string_view what) const {
  Tensor taken = engine_context_.take(there(tensor, what), what);
  if (taken.defined() && taken.storage()->buffer() == 0) refuse(what, "it is in no buffer of the device");
  return taken;
}

}  // namespace shardproof::subject::abi

// Gives a gradient hook to a subject in C: a function with plain arguments. This is the harness's side of the boundary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "harness/subject/abi/harness_side.hpp"
#include "harness/subject/gradient_hook.hpp"

namespace shardproof::subject::abi {

class HarnessSideGradientHook {
 public:
  HarnessSideGradientHook(HarnessSide& engine_context, GradientHook hook);
  HarnessSideGradientHook(const HarnessSideGradientHook&) = delete;
  HarnessSideGradientHook& operator=(const HarnessSideGradientHook&) = delete;

  const shardproof_gradient_hook& in_c() const { return in_c_; }
  /// Called when the registration has failed: all later calls of the hook fail.
  void withdraw() { is_withdrawn_ = true; }

 private:
  void call(std::uint64_t state, std::string label, const shardproof_tensor* gradient, const shardproof_tensor* output,
            std::uint32_t stream) const;
  Tensor operand(const shardproof_tensor* tensor, std::string_view what) const;

  HarnessSide& engine_context_;
  GradientHook hook_;
  shardproof_gradient_hook in_c_;
  bool is_withdrawn_ = false;
  std::string error_;
};

}  // namespace shardproof::subject::abi

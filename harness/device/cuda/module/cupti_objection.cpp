#include "harness/device/cuda/module/cupti_objection.hpp"

#include <fmt/format.h>

namespace shardproof::device::cuda {

std::string cupti_objection(const CuptiState& state) {
  if (!state.loader_says.empty()) {
    return fmt::format(
        "there is no CUPTI here: {}. No driver includes it: install the CUDA Toolkit or Python's nvidia-cuda-cupti, "
        "and add its directory to LD_LIBRARY_PATH",
        state.loader_says);
  }
  if (!state.lacks.empty())
    return fmt::format("the {} here has no {}: it is not NVIDIA's CUPTI, or an unsupported version", state.name,
                       state.lacks);
  if (state.version < state.built_with) {
    return fmt::format(
        "the {} here has version {}, older than the {} of this build, so its records may differ: install a newer one",
        state.name, state.version, state.built_with);
  }
  return {};
}

}  // namespace shardproof::device::cuda

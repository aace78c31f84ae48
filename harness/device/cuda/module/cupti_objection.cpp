#include "harness/device/cuda/module/cupti_objection.hpp"

#include <fmt/format.h>

namespace shardproof::cuda {

std::string cupti_objection(const CuptiState& state) {
  if (!state.loader_says.empty()) {
    return fmt::format(
        "there is no CUPTI here: {}. It is part of the CUDA Toolkit, no driver has it, and Python's nvidia-cuda-cupti "
        "brings it; "
        "LD_LIBRARY_PATH says where it lies",
        state.loader_says);
  }
  if (!state.lacks.empty())
    return fmt::format("the {} here has no {}: it is none of NVIDIA's, or of another time", state.name, state.lacks);
  if (state.version < state.built_with) {
    return fmt::format(
        "the {} here is of version {}, older than the {} that this was built with, and its records may be other ones",
        state.name, state.version, state.built_with);
  }
  return {};
}

}  // namespace shardproof::cuda

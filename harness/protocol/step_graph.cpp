#include "harness/protocol/step_graph.hpp"

namespace shardproof {

std::string_view to_string(StepPass pass) { return pass == StepPass::forward ? "forward" : "backward"; }

std::string_view to_string(StepNodeKind kind) {
  switch (kind) {
    case StepNodeKind::compute: return "compute";
    case StepNodeKind::all_reduce: return "all_reduce";
    case StepNodeKind::wait: return "wait";
    case StepNodeKind::copy: return "copy";
  }
  return {};
}

std::string_view to_string(StepValueKind kind) {
  switch (kind) {
    case StepValueKind::input: return "input";
    case StepValueKind::parameter: return "parameter";
    case StepValueKind::gradient: return "gradient";
    case StepValueKind::computed: return "computed";
  }
  return {};
}

}  // namespace shardproof

#include "harness/subject/feature.hpp"

namespace shardproof {

std::string_view to_string(Feature feature) {
  switch (feature) {
    case Feature::timeline: return "timeline";
    case Feature::fully_shard: return "fully_shard";
    case Feature::post_optim_event: return "post_optim_event";
    case Feature::serial: return "serial";
  }
  return "unknown";
}

}  // namespace shardproof

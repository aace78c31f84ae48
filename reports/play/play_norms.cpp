#include "reports/play/play_norms.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>

namespace shardproof::reports {

namespace {

/// The greater number, or a NaN.
double larger(double one, double other) { return std::isnan(one) || one > other ? one : other; }

}  // namespace

std::vector<GradientNorm> gradient_norms(std::span<const protocol::PlayResult> ranks) {
  std::size_t count = 0;
  for (const protocol::PlayResult& rank : ranks) count = std::max(count, rank.clips.size());
  std::vector<GradientNorm> norms(count);
  for (std::size_t i = 0; i < count; ++i) {
    std::set<std::pair<std::string, std::int64_t>> seen;
    double power = 0, type = 2;
    for (const protocol::PlayResult& rank : ranks) {
      if (i >= rank.clips.size()) continue;
      const protocol::PlayedClip& clip = rank.clips[i];
      norms[i].iteration = clip.iteration;
      norms[i].max_norm = clip.max_norm;
      type = clip.norm_type;
      for (const protocol::PlayedClip::Part& part : clip.parts) {
        if (!seen.emplace(part.name, part.start).second) continue;
        power = std::isinf(type) ? larger(part.power, power) : power + part.power;
      }
    }
    norms[i].norm = std::isinf(type) ? power : std::pow(power, 1 / type);
  }
  return norms;
}

}  // namespace shardproof::reports

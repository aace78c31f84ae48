// Draws the registration of a hook for reductions, for engines that have such hooks. Inner header.
#pragma once

#include <vector>

#include "harness/scenario/generator/parts.hpp"

namespace shardproof::scenario {

/// The features of a kind of engine: hooks of the user, and hooks of the engine that reduce in low precision.
struct HookFeatures {
  Feature user, compressing;
};

inline std::vector<Action> draw_hook(const Palette& palette, const HookFeatures& features, Dice& dice) {
  std::vector<HookKind> kinds;
  const bool wants_one = palette.wants(features.user) || palette.wants(features.compressing);
  if (palette.has(features.user) && (!wants_one || palette.wants(features.user)))
    kinds = {HookKind::plain, HookKind::doubled, HookKind::sum};
  if (palette.has(features.compressing) && (!wants_one || palette.wants(features.compressing)))
    kinds.insert(kinds.end(), {HookKind::fp16_compress, HookKind::bf16_compress});
  if (kinds.empty() || !dice.chance(wants_one ? 100 : 25)) return {};
  return {{.kind = ActionKind::register_hook, .hook = Hook{.kind = dice.one_of(kinds), .state = dice.between(0, 3)}}};
}

}  // namespace shardproof::scenario

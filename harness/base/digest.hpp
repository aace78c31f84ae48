// Numbers that stand for texts and bytes, the same on every machine and in every build. Against accidents, not against forgers.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardproof {

/// 64 bits of a text (FNV-1a). `so_far`: the digest of what stands before it.
constexpr std::uint64_t digest(std::string_view text, std::uint64_t so_far = 0xcbf29ce484222325U) {
  for (const char c : text) so_far = (so_far ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return so_far;
}

}  // namespace shardproof

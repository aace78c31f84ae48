// Digests of texts and bytes, the same on every machine and in every build. They detect accidents, not forgery.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardproof::base {

/// A 64-bit digest of a text (FNV-1a). `so_far` is the digest of the text before it.
constexpr std::uint64_t digest(std::string_view text, std::uint64_t so_far = 0xcbf29ce484222325U) {
  for (const char c : text) so_far = (so_far ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return so_far;
}

}  // namespace shardproof::base

// How often a random test goes round.
#pragma once

namespace shardproof::testing {

/// A fourth of `usual` under AddressSanitizer: that build is ten times as slow, and asks what the code does to memory, which few rounds show.
template <class Number>
constexpr Number rounds(Number usual) {
#ifdef SHARDPROOF_SANITIZES_ADDRESSES
  return usual / 4;
#else
  return usual;
#endif
}

}  // namespace shardproof::testing

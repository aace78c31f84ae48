// The number of rounds of a random test.
#pragma once

namespace shardproof::testing {

/// A fourth of `usual` under AddressSanitizer. That build is ten times slower, and only checks memory accesses, for
/// which few rounds are enough.
template <class Number>
constexpr Number rounds(Number usual) {
#ifdef SHARDPROOF_SANITIZES_ADDRESSES
  return usual / 4;
#else
  return usual;
#endif
}

}  // namespace shardproof::testing

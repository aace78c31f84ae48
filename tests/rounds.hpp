// How often a random test goes round.
#pragma once

namespace shardproof::testing {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SHARDPROOF_UNDER_SANITIZER
#endif
#endif

/// A fourth of `usual` under a sanitizer: that build is ten times as slow, and asks what the code does to memory, which few rounds show.
template <class Number>
constexpr Number rounds(Number usual) {
#ifdef SHARDPROOF_UNDER_SANITIZER
  return usual / 4;
#else
  return usual;
#endif
}

}  // namespace shardproof::testing

// Names of enumerators: the usual body of `to_string` for an enum.
#pragma once

#include <cstddef>
#include <string_view>

namespace shardproof::base {

/// The name of an enumerator, or "unknown" for a value without one. `names` has one for each enumerator from zero to
/// `last`.
template <auto last, std::size_t size>
constexpr std::string_view name_of(decltype(last) value, const std::string_view (&names)[size]) {
  static_assert(size == static_cast<std::size_t>(last) + 1);
  const auto place = static_cast<std::size_t>(value);
  return place < size ? names[place] : "unknown";
}

}  // namespace shardproof::base

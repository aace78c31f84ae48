// Makes assertions print this project's own types with their `to_string`. Catch2 would print `{?}`, or an enumerator's
// number.
#pragma once

#include <catch2/catch_tostring.hpp>
#include <concepts>
#include <string>
#include <string_view>
#include <type_traits>

namespace shardproof::detail {

// Ranges are left to Catch2, which spells their elements.
template <class T>
concept Spelled = (std::is_enum_v<T> || std::is_class_v<T>) && !Catch::is_range<T>::value && requires(const T& value) {
  { to_string(value) } -> std::convertible_to<std::string_view>;
};

}  // namespace shardproof::detail

template <shardproof::detail::Spelled T>
struct Catch::StringMaker<T> {
  static std::string convert(const T& value) { return std::string(to_string(value)); }
};

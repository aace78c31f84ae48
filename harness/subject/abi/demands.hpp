// Checks of arguments from the other side of the boundary. They throw std::invalid_argument.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string_view>

namespace shardproof::subject::abi {

[[noreturn]] inline void refuse(std::string_view what, std::string_view why) {
  throw std::invalid_argument(fmt::format("{}: {}", what, why));
}

/// The object behind a pointer that must not be NULL.
template <class T>
T& there(T* pointer, std::string_view what) {
  if (pointer == nullptr) refuse(what, "it is NULL");
  return *pointer;
}

/// Checks the dimensions of a tensor or a parameter.
inline void require_dimensions(int count, const std::int64_t* shape, std::string_view what) {
  constexpr int most = 32;
  if (count > most) refuse(what, fmt::format("{} dimensions; there may be {}", count, most));
  if (count < 0 || (count > 0 && shape == nullptr)) refuse(what, fmt::format("{} dimensions without a shape", count));
}

}  // namespace shardproof::subject::abi

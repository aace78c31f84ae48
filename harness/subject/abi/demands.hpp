// What is demanded of what comes from the other side of the boundary.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string_view>

namespace shardproof::abi {

[[noreturn]] inline void refuse(std::string_view what, std::string_view why) {
  throw std::invalid_argument(fmt::format("{}: {}", what, why));
}

/// What has to be there.
template <class T>
T& there(T* pointer, std::string_view what) {
  if (pointer == nullptr) refuse(what, "it is NULL");
  return *pointer;
}

}  // namespace shardproof::abi

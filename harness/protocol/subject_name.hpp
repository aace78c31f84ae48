// What the launcher and its workers alike understand by the name of a subject.
#pragma once

#include <string_view>

namespace shardproof {

/// Whether it is the path of a shared object; otherwise it is a name that the worker knows.
constexpr bool is_shared_object(std::string_view subject) {
  return subject.find('/') != std::string_view::npos || subject.ends_with(".so");
}

}  // namespace shardproof

// What the launcher says to what it does not take.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "launcher/launcher.hpp"

namespace shardproof::launcher::testing {

/// The text of the usage error that `action` ends with; `accepted` when it ends with none.
std::string refusal(const auto& action) {
  try {
    action();
  } catch (const CommandError& error) {
    CHECK(error.code() == usage);
    return error.what();
  }
  return "accepted";
}

}  // namespace shardproof::launcher::testing

// The launcher's usage errors, for tests of refused arguments.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>

#include "launcher/launcher.hpp"

namespace shardproof::launcher::testing {

/// The text of the usage error that `action` throws, or `accepted` if it throws none.
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

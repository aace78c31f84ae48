// Assertions that fail with a sentence, where values alone do not say what was expected of which group.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace shardproof::suites {

/// One assertion. `otherwise` says what is wrong.
inline void check_said(bool holds, const std::string& otherwise) {
  if (holds) SUCCEED("holds");
  else FAIL_CHECK(otherwise);
}

}  // namespace shardproof::suites

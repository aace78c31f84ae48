// Assertions that fail with a sentence, for checks whose values alone do not show the expectation and the group.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <string>

namespace shardproof::suites {

/// One assertion. `otherwise` is the text of a failure.
inline void check_said(bool holds, const std::string& otherwise) {
  if (holds) SUCCEED("holds");
  else FAIL_CHECK(otherwise);
}

}  // namespace shardproof::suites

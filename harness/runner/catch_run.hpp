// Drives Catch2 for a rank that has its own process. Each body is one Catch2 run of one test case. The results of its
// assertions go to the listener as they happen, and nothing goes to stdout.
//
// Ranked cases are not registered in Catch2. A single Catch2 test case runs each body in turn, so a thousand ranked
// cases cost no more than one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "harness/runner/body_run.hpp"

namespace shardproof::runner {

class CatchRun final : public BodyRunner {
 public:
  /// One per process. `seed` is the seed of Catch2's own random numbers.
  explicit CatchRun(std::uint32_t seed);
  ~CatchRun() override;

  std::uint64_t run(const std::function<void()>& body, BodyListener& listener) override;

  /// `file:line: name` of a TEST_CASE that the program declares in addition to its ranked cases. Empty without such a
  /// TEST_CASE.
  static std::string plain_test_case();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardproof::runner

// Drives Catch2 for a rank that has a process of its own: a body is run as one Catch2 run of one test case, and what its assertions say is
// handed on as it happens. Nothing goes to stdout. The ranked cases are not registered one by one: a single Catch2 test case whose body is exchanged costs
// the same whether a program declares one ranked case or a thousand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "harness/runner/body_run.hpp"

namespace shardproof {

class CatchRun final : public BodyRunner {
 public:
  /// One per process. `seed` is of Catch2's own random numbers.
  explicit CatchRun(std::uint32_t seed);
  ~CatchRun() override;

  std::uint64_t run(const std::function<void()>& body, BodyListener& listener) override;

  /// `file:line: name` of a TEST_CASE that the program declares beside its ranked cases; empty when there is none.
  static std::string plain_test_case();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardproof

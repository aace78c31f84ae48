// What both ways of running a body have in common: how it is left, and what an assertion's result is to the listener. Knows Catch2.
#pragma once

#include <catch2/catch_assertion_result.hpp>
#include <catch2/internal/catch_message_info.hpp>
#include <catch2/internal/catch_source_line_info.hpp>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/runner/body_run.hpp"

namespace shardproof {

class ToldBody {
 public:
  explicit ToldBody(BodyListener& listener) : listener_(listener) {}

  /// Runs the body and tells how it was left. An exception that is an error goes through, so that its messages in scope can still be told.
  void run(const std::function<void()>& body);

  void assertion_starting(const Catch::SourceLineInfo& place) { last_assertion_ = place; }
  /// `messages`: those in scope.
  void assertion_ended(const Catch::AssertionResult& result, const std::vector<Catch::MessageInfo>& messages);
  /// Never returns: a SECTION must not be entered.
  [[noreturn]] void refuse_section(std::string_view name, const Catch::SourceLineInfo& place);
  /// The body would be run again, with another value.
  void refuse_generator() { listener_.refused("GENERATE"); }

 private:
  BodyListener& listener_;
  bool left_by_exception_ = false;
  std::optional<Catch::SourceLineInfo> last_assertion_;
};

}  // namespace shardproof

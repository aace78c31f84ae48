// Runs one body and reports its end and its assertions to a listener. Both runners of bodies use it. Knows Catch2.
#pragma once

#include <catch2/catch_assertion_result.hpp>
#include <catch2/internal/catch_message_info.hpp>
#include <catch2/internal/catch_source_line_info.hpp>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "harness/runner/body_run.hpp"

namespace shardproof::runner {

class CaseBodyRunner {
 public:
  explicit CaseBodyRunner(BodyListener& listener) : listener_(listener) {}

  /// Runs the body, and reports how it ended. An exception that is an error leaves this function, so that the caller
  /// can still report the messages in scope.
  void run(const std::function<void()>& body);

  void assertion_starting(const Catch::SourceLineInfo& place) { last_assertion_ = place; }
  /// `messages`: the messages in scope.
  void assertion_ended(const Catch::AssertionResult& result, const std::vector<Catch::MessageInfo>& messages);
  /// Never returns: a body must not enter a SECTION.
  [[noreturn]] void refuse_section(std::string_view name, const Catch::SourceLineInfo& place);
  /// Catch2 would run the body again, with another value.
  void refuse_generator() { listener_.refused("GENERATE"); }

 private:
  BodyListener& listener_;
  bool left_by_exception_ = false;
  std::optional<Catch::SourceLineInfo> last_assertion_;
};

}  // namespace shardproof::runner

// The interface to run the body of a ranked case once, and to hear its assertions as they happen. A listener does not
// know Catch2. A runner does: catch_run.hpp for a rank that is a process, thread_runs.hpp for ranks that are threads.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace shardproof::protocol::event {
struct AssertionFailed;
}

namespace shardproof::runner {

namespace event {}

/// Receives the events of a body as they happen.
class BodyListener {
 public:
  virtual ~BodyListener() = default;
  /// An assertion failed.
  virtual void failed(protocol::event::AssertionFailed failure) = 0;
  /// A failed REQUIRE or FAIL has left the body. `failed` has reported the failure before.
  virtual void left_by_assertion() = 0;
  /// An exception has left the body. `text` is the text of Catch2's exception translators.
  virtual void left_by_exception(const std::exception_ptr& exception, const std::string& text) = 0;
  /// Catch2's facts about that exception: the messages in scope, and the file and line of the last assertion before it.
  /// Without such an assertion, the file is empty and the line is 0. `macro` is empty.
  virtual void exception_reported(protocol::event::AssertionFailed failure) = 0;
  /// A wait ended because of another rank (`Released`), or because all ranks waited for each other (`Deadlock`). The
  /// exception appeared inside an assertion or left the body.
  virtual void released() = 0;
  /// SKIP(reason) ends the body.
  virtual void skip(std::string reason) = 0;
  /// The body uses a feature of Catch2 that a ranked case must not use. The body does not go on.
  virtual void refused(std::string what) = 0;
};

class BodyRunner {
 public:
  virtual ~BodyRunner() = default;
  /// Runs the body, and returns the number of assertions that held. The exceptions `Released`, `Deadlock` and
  /// `CaseSkipped` end the body, and Catch2 reports nothing. Throws std::runtime_error if Catch2 did not run the body
  /// to its end.
  virtual std::uint64_t run(const std::function<void()>& body, BodyListener& listener) = 0;
};

}  // namespace shardproof::runner

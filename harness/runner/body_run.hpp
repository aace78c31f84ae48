// Running the body of a ranked case once, and hearing what its assertions say while they say it. Who listens does not know Catch2; who runs
// bodies does (catch_run.hpp for the one rank of a process, capture_by_thread.hpp for ranks that are threads).
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace shardproof {

namespace event {
struct AssertionFailed;
}

/// Hears what happens in a body while it happens.
class BodyListener {
 public:
  virtual ~BodyListener() = default;
  /// An assertion failed.
  virtual void failed(event::AssertionFailed failure) = 0;
  /// A failed REQUIRE or FAIL has left the body; `failed` has told about it before.
  virtual void left_by_assertion() = 0;
  /// An exception has left the body. `text` is as Catch2's translators put it.
  virtual void left_by_exception(const std::exception_ptr& exception, const std::string& text) = 0;
  /// What Catch2 knows about that exception: messages in scope, file and line of the last assertion before it (empty and 0 where there was
  /// none). `macro` is empty.
  virtual void exception_reported(event::AssertionFailed failure) = 0;
  /// The exception of a released wait, or of one for each other, has come up: inside an assertion, or out of the body.
  virtual void released() = 0;
  /// SKIP(reason): the body ends with it.
  virtual void skip(std::string reason) = 0;
  /// The body uses something of Catch2 that a ranked case must not. It is not run on.
  virtual void refused(std::string what) = 0;
};

class BodyRunner {
 public:
  virtual ~BodyRunner() = default;
  /// Runs the body; returns the number of assertions that held. Exceptions `Released`, `Deadlock` and `CaseSkipped` end it without a word
  /// from Catch2. Throws std::runtime_error when Catch2 did not run the body to an end.
  virtual std::uint64_t run(const std::function<void()>& body, BodyListener& listener) = 0;
};

}  // namespace shardproof

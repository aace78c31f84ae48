#include "harness/runner/case_body_runner.hpp"

#include <fmt/format.h>

#include <catch2/interfaces/catch_interfaces_registry_hub.hpp>
#include <catch2/internal/catch_test_failure_exception.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "harness/control/control_plane.hpp"
#include "harness/protocol/events.hpp"
#include "harness/protocol/failure_text.hpp"
#include "harness/world/event_stream.hpp"
#include "harness/world/world.hpp"

namespace shardproof::runner {

namespace {

/// Thrown out of a SECTION. It does not derive from std::exception, so that a body's own handlers do not catch it.
struct SectionRefused {};

std::string text(Catch::StringRef reference) { return {reference.data(), reference.size()}; }

bool is_released(const std::exception_ptr& exception) {
  if (!exception) return false;
  try {
    std::rethrow_exception(exception);
  } catch (const control::Released&) {
    return true;
  } catch (const control::Deadlock&) {
    return true;
  } catch (...) {
    return false;
  }
}

protocol::event::AssertionFailed failure(const Catch::AssertionResult& result,
                                         const std::vector<Catch::MessageInfo>& messages) {
  protocol::event::AssertionFailed event;
  event.file = result.getSourceInfo().file;
  event.line = static_cast<int>(result.getSourceInfo().line);
  event.macro = text(result.getTestMacroName());
  event.expression = result.getExpression();
  switch (result.getResultType()) {
    case Catch::ResultWas::ThrewException:
      event.expansion = protocol::unexpected_exception(text(result.getMessage()));
      break;
    case Catch::ResultWas::DidntThrowException: event.expansion = "no exception was thrown"; break;
    default:
      event.expansion = result.hasExpandedExpression() ? result.getExpandedExpression() : text(result.getMessage());
  }
  for (const Catch::MessageInfo& message : messages) {
    if (message.type == Catch::ResultWas::Info) event.messages.push_back(message.message);
  }
  event.monotonic_ns = world::monotonic_ns();
  return event;
}

// A warning changes no outcome, so it goes to standard error like other output of the body.
void warn(const Catch::AssertionResult& result) {
  fmt::print(stderr, "{}:{}: warning: {}\n", result.getSourceInfo().file, result.getSourceInfo().line,
             text(result.getMessage()));
}

}  // namespace

void CaseBodyRunner::run(const std::function<void()>& body) {
  try {
    body();
  } catch (const control::Released&) {
    listener_.released();
  } catch (const control::Deadlock&) {
    listener_.released();
  } catch (const world::CaseSkipped&) {
  } catch (const Catch::TestSkipException&) {
  } catch (const SectionRefused&) {
  } catch (const Catch::TestFailureException&) {
    listener_.left_by_assertion();
  } catch (...) {
    left_by_exception_ = true;
    listener_.left_by_exception(std::current_exception(), Catch::translateActiveException());
    throw;
  }
}

void CaseBodyRunner::assertion_ended(const Catch::AssertionResult& result,
                                     const std::vector<Catch::MessageInfo>& messages) {
  switch (result.getResultType()) {
    case Catch::ResultWas::ExplicitSkip: listener_.skip(text(result.getMessage())); return;
    case Catch::ResultWas::Warning: warn(result); return;
    default: break;
  }
  if (result.isOk()) return;
  if (result.getResultType() == Catch::ResultWas::ThrewException && is_released(std::current_exception())) {
    listener_.released();
    return;
  }
  protocol::event::AssertionFailed event = failure(result, messages);
  if (!left_by_exception_) {
    listener_.failed(std::move(event));
    return;
  }
  event.macro.clear();
  event.expression.clear();
  event.file = last_assertion_ ? last_assertion_->file : "";
  event.line = last_assertion_ ? static_cast<int>(last_assertion_->line) : 0;
  listener_.exception_reported(std::move(event));
}

void CaseBodyRunner::refuse_section(std::string_view name, const Catch::SourceLineInfo& place) {
  listener_.refused(fmt::format("SECTION \"{}\" at {}:{}", name, place.file, place.line));
  throw SectionRefused{};
}

}  // namespace shardproof::runner

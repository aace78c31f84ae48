#include "harness/cases/catch_run.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/interfaces/catch_interfaces_registry_hub.hpp>
#include <catch2/interfaces/catch_interfaces_reporter_factory.hpp>
#include <catch2/interfaces/catch_interfaces_testcase.hpp>
#include <catch2/internal/catch_test_failure_exception.hpp>
#include <catch2/internal/catch_test_registry.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <cstdio>
#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>

#include "harness/protocol/control_page.hpp"
#include "harness/protocol/events.hpp"
#include "harness/world/event_stream.hpp"
#include "harness/world/world.hpp"

namespace shardproof {

namespace {

constexpr char name_of_test[] = "shardproof ranked case";
constexpr char name_of_reporter[] = "shardproof";

/// Thrown out of a SECTION. No std::exception, so that a body's own handlers let it pass.
struct SectionRefused {};

// Catch2 handles these signals while a test runs: it would report in the handler, with whatever locks the crash left taken, and a rank that
// should have crashed could hang. How a process ends is its launcher's business, so bodies run with the dispositions found at start.
class SignalDispositions {
 public:
  SignalDispositions() {
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], nullptr, &found_[i]);
  }
  void restore() const {
    for (std::size_t i = 0; i < signals.size(); ++i) ::sigaction(signals[i], &found_[i], nullptr);
  }

 private:
  static constexpr std::array signals{SIGINT, SIGILL, SIGFPE, SIGSEGV, SIGTERM, SIGABRT};
  std::array<struct sigaction, signals.size()> found_{};
};

std::string text(Catch::StringRef reference) { return {reference.data(), reference.size()}; }

bool is_released(const std::exception_ptr& exception) {
  if (!exception) return false;
  try {
    std::rethrow_exception(exception);
  } catch (const Released&) {
    return true;
  } catch (const Deadlock&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace

// What the invoker and the reporter of the run in progress share.
struct CatchRun::State {
  explicit State(std::uint32_t seed);
  void invoke();

  Catch::Session session;
  SignalDispositions dispositions;
  const std::function<void()>* body = nullptr;
  BodyListener* listener = nullptr;
  int invocations = 0;
  bool left_by_exception = false;
  bool ended = false;
  std::optional<Catch::SourceLineInfo> last_assertion;
  std::uint64_t passed_assertions = 0;
};

namespace {

class Invoker final : public Catch::ITestInvoker {
 public:
  explicit Invoker(std::function<void()> invoke) : invoke_(std::move(invoke)) {}
  void invoke() const override { invoke_(); }

 private:
  std::function<void()> invoke_;
};

// A template only because the state's type is private to CatchRun.
template <class State>
class Reporter final : public Catch::EventListenerBase {
 public:
  Reporter(const Catch::IConfig* config, State& state) : EventListenerBase(config), state_(state) {}

  void testCasePartialStarting(const Catch::TestCaseInfo&, std::uint64_t) override { in_test_case_ = false; }

  void sectionStarting(const Catch::SectionInfo& section) override {
    // The test case itself comes as the first one.
    if (!std::exchange(in_test_case_, true)) return;
    state_.listener->refused(fmt::format("SECTION \"{}\" at {}:{}", section.name, section.lineInfo.file, section.lineInfo.line));
    throw SectionRefused{};
  }

  void assertionStarting(const Catch::AssertionInfo& assertion) override { state_.last_assertion = assertion.lineInfo; }

  void assertionEnded(const Catch::AssertionStats& stats) override {
    const Catch::AssertionResult& result = stats.assertionResult;
    switch (result.getResultType()) {
      case Catch::ResultWas::ExplicitSkip: state_.listener->skip(text(result.getMessage())); return;
      case Catch::ResultWas::Warning: warn(result); return;
      default: break;
    }
    if (result.isOk()) return;
    if (result.getResultType() == Catch::ResultWas::ThrewException && is_released(std::current_exception())) {
      state_.listener->released();
      return;
    }
    if (state_.left_by_exception) {
      event::AssertionFailed event = failure(stats);
      event.macro.clear();
      event.expression.clear();
      event.file = state_.last_assertion ? state_.last_assertion->file : "";
      event.line = state_.last_assertion ? static_cast<int>(state_.last_assertion->line) : 0;
      state_.listener->exception_reported(std::move(event));
    } else {
      state_.listener->failed(failure(stats));
    }
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    state_.passed_assertions = stats.totals.assertions.passed + stats.totals.assertions.failedButOk;
    state_.ended = true;
  }

 private:
  static event::AssertionFailed failure(const Catch::AssertionStats& stats) {
    const Catch::AssertionResult& result = stats.assertionResult;
    event::AssertionFailed event;
    event.file = result.getSourceInfo().file;
    event.line = static_cast<int>(result.getSourceInfo().line);
    event.macro = text(result.getTestMacroName());
    event.expression = result.getExpression();
    switch (result.getResultType()) {
      case Catch::ResultWas::ThrewException: event.expansion = "unexpected exception: " + text(result.getMessage()); break;
      case Catch::ResultWas::DidntThrowException: event.expansion = "no exception was thrown"; break;
      default: event.expansion = result.hasExpandedExpression() ? result.getExpandedExpression() : text(result.getMessage());
    }
    for (const Catch::MessageInfo& message : stats.infoMessages) {
      if (message.type == Catch::ResultWas::Info) event.messages.push_back(message.message);
    }
    event.monotonic_ns = monotonic_ns();
    return event;
  }

  // A warning decides nothing: it goes where the body's other words go.
  static void warn(const Catch::AssertionResult& result) {
    fmt::print(stderr, "{}:{}: warning: {}\n", result.getSourceInfo().file, result.getSourceInfo().line, text(result.getMessage()));
  }

  State& state_;
  bool in_test_case_ = false;
};

template <class State>
class ReporterFactory final : public Catch::IReporterFactory {
 public:
  explicit ReporterFactory(State& state) : state_(state) {}
  // The stream in the configuration stays unused: nothing of ours belongs on stdout.
  Catch::IEventListenerPtr create(Catch::ReporterConfig&& config) const override {
    return Catch::Detail::make_unique<Reporter<State>>(config.fullConfig(), state_);
  }
  std::string getDescription() const override { return "events of a ranked case"; }

 private:
  State& state_;
};

}  // namespace

CatchRun::State::State(std::uint32_t seed) {
  auto& hub = Catch::getMutableRegistryHub();
  hub.registerTest(Catch::makeTestCaseInfo("", {name_of_test, ""}, {__FILE__, __LINE__}),
                   Catch::Detail::make_unique<Invoker>([this] { invoke(); }));
  hub.registerReporter(name_of_reporter, Catch::Detail::make_unique<ReporterFactory<State>>(*this));
  Catch::ConfigData& config = session.configData();
  config.reporterSpecifications.emplace_back(name_of_reporter, Catch::Optional<std::string>{}, Catch::Optional<Catch::ColourMode>{},
                                             std::map<std::string, std::string>{});
  config.testsOrTags = {name_of_test};
  config.runOrder = Catch::TestRunOrder::Declared;
  config.rngSeed = seed;
}

// Catch2 calls it once more while it believes that the test case has other paths to take.
void CatchRun::State::invoke() {
  if (++invocations > 1) {
    if (invocations == 2) listener->refused("GENERATE");
    return;
  }
  dispositions.restore();
  try {
    (*body)();
  } catch (const Released&) {
    listener->released();
  } catch (const Deadlock&) {
    listener->released();
  } catch (const CaseSkipped&) {
  } catch (const Catch::TestSkipException&) {
  } catch (const SectionRefused&) {
  } catch (const Catch::TestFailureException&) {
    listener->left_by_assertion();
  } catch (...) {
    left_by_exception = true;
    listener->left_by_exception(std::current_exception(), Catch::translateActiveException());
    throw;  // Catch2 knows the messages that were in scope
  }
}

CatchRun::CatchRun(std::uint32_t seed) : state_(std::make_unique<State>(seed)) {}
CatchRun::~CatchRun() = default;

std::uint64_t CatchRun::run(const std::function<void()>& body, BodyListener& listener) {
  State& state = *state_;
  state.body = &body;
  state.listener = &listener;
  state.invocations = 0;
  state.left_by_exception = state.ended = false;
  state.last_assertion.reset();
  const int code = state.session.run();
  if (!state.ended) throw std::runtime_error(fmt::format("Catch2 did not run the case to an end: Session::run gave {}", code));
  return state.passed_assertions;
}

std::string CatchRun::plain_test_case() {
  for (const Catch::TestCaseInfo* info : Catch::getRegistryHub().getTestCaseRegistry().getAllInfos()) {
    if (info->name != name_of_test) return fmt::format("{}:{}: {}", info->lineInfo.file, info->lineInfo.line, info->name);
  }
  return {};
}

}  // namespace shardproof

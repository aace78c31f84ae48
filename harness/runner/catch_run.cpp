#include "harness/runner/catch_run.hpp"

#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <catch2/catch_session.hpp>
#include <catch2/catch_test_case_info.hpp>
#include <catch2/interfaces/catch_interfaces_registry_hub.hpp>
#include <catch2/interfaces/catch_interfaces_reporter_factory.hpp>
#include <catch2/interfaces/catch_interfaces_testcase.hpp>
#include <catch2/internal/catch_test_registry.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "harness/runner/case_body_runner.hpp"

namespace shardproof::runner {

namespace {

constexpr char name_of_test[] = "shardproof ranked case";
constexpr char name_of_reporter[] = "shardproof";

// Restores the signal dispositions found at start, so that bodies run with them. Catch2 handles these signals while a
// test runs. Its handler would report while locks of the crashed code are still taken, and a rank that should crash
// could hang. The launcher reports how a process ended.
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

}  // namespace

// The state that the invoker and the reporter of the current run share.
struct CatchRun::State {
  explicit State(std::uint32_t seed);
  void invoke();

  Catch::Session session;
  std::optional<SignalDispositions> dispositions;  ///< before the first run
  const std::function<void()>* body = nullptr;
  std::optional<CaseBodyRunner> body_runner;
  int invocations = 0;
  bool ended = false;
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
    // Catch2 reports the test case itself as the first section.
    if (!std::exchange(in_test_case_, true)) return;
    state_.body_runner->refuse_section(section.name, section.lineInfo);
  }

  void assertionStarting(const Catch::AssertionInfo& assertion) override {
    state_.body_runner->assertion_starting(assertion.lineInfo);
  }

  void assertionEnded(const Catch::AssertionStats& stats) override {
    state_.body_runner->assertion_ended(stats.assertionResult, stats.infoMessages);
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    state_.passed_assertions = stats.totals.assertions.passed + stats.totals.assertions.failedButOk;
    state_.ended = true;
  }

 private:
  State& state_;
  bool in_test_case_ = false;
};

template <class State>
class ReporterFactory final : public Catch::IReporterFactory {
 public:
  explicit ReporterFactory(State& state) : state_(state) {}
  // The configuration's stream stays unused: our output does not belong on stdout.
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
  config.reporterSpecifications.emplace_back(name_of_reporter, Catch::Optional<std::string>{},
                                             Catch::Optional<Catch::ColourMode>{},
                                             std::map<std::string, std::string>{});
  config.testsOrTags = {name_of_test};
  config.runOrder = Catch::TestRunOrder::Declared;
  config.rngSeed = seed;
}

// Catch2 calls this again while it believes that the test case has other paths.
void CatchRun::State::invoke() {
  if (++invocations > 1) {
    if (invocations == 2) body_runner->refuse_generator();
    return;
  }
  dispositions->restore();
  // Catch2 catches what leaves the body: it knows the messages that were in scope.
  body_runner->run(*body);
}

CatchRun::CatchRun(std::uint32_t seed) : state_(std::make_unique<State>(seed)) {}
CatchRun::~CatchRun() = default;

std::uint64_t CatchRun::run(const std::function<void()>& body, BodyListener& listener) {
  State& state = *state_;
  if (!state.dispositions) {
    // With BAZEL_TEST, Catch2 would choose among its tests and write files for Bazel. Our launcher does both.
    ::unsetenv("BAZEL_TEST");
    state.dispositions.emplace();
  }
  state.body = &body;
  state.body_runner.emplace(listener);
  state.invocations = 0;
  state.ended = false;
  const int code = state.session.run();
  if (!state.ended)
    throw std::runtime_error(fmt::format("Catch2 did not run the case to an end: Session::run gave {}", code));
  return state.passed_assertions;
}

std::string CatchRun::plain_test_case() {
  for (const Catch::TestCaseInfo* info : Catch::getRegistryHub().getTestCaseRegistry().getAllInfos()) {
    if (info->name != name_of_test)
      return fmt::format("{}:{}: {}", info->lineInfo.file, info->lineInfo.line, info->name);
  }
  return {};
}

}  // namespace shardproof::runner

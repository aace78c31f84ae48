#include "harness/runner/thread_runs.hpp"

#include <catch2/catch_version_macros.hpp>

// This replacement of Catch2's run context knows Catch2's internals, which are these up to version 3.7.
#if CATCH_VERSION_MAJOR == 3 && CATCH_VERSION_MINOR < 8

#include <algorithm>
#include <catch2/catch_assertion_info.hpp>
#include <catch2/catch_assertion_result.hpp>
#include <catch2/catch_config.hpp>
#include <catch2/catch_message.hpp>
#include <catch2/interfaces/catch_interfaces_capture.hpp>
#include <catch2/interfaces/catch_interfaces_generatortracker.hpp>
#include <catch2/internal/catch_assertion_handler.hpp>
#include <catch2/internal/catch_context.hpp>
#include <catch2/internal/catch_decomposer.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/runner/case_body_runner.hpp"

namespace shardproof::runner {

namespace {

#if CATCH_VERSION_MINOR < 7 || (CATCH_VERSION_MINOR == 7 && CATCH_VERSION_PATCH < 1)
using Words = Catch::StringRef;
#else
using Words = std::string&&;
#endif

/// A GENERATE: its first value, and whether it has other values.
class FirstValue final : public Catch::IGeneratorTracker {
 public:
  FirstValue(Catch::StringRef name, const Catch::SourceLineInfo& place, Catch::Generators::GeneratorBasePtr&& generator)
      : name_(name), place_(place), generator_(std::move(generator)) {}

  bool is_at(Catch::StringRef name, const Catch::SourceLineInfo& place) const {
    return name_ == static_cast<std::string>(name) && place_ == place;
  }
  bool has_another() { return generator_->countedNext(); }

  bool hasGenerator() const override { return true; }
  const Catch::Generators::GeneratorBasePtr& getGenerator() const override { return generator_; }
  void setGenerator(Catch::Generators::GeneratorBasePtr&& generator) override { generator_ = std::move(generator); }

 private:
  std::string name_;
  Catch::SourceLineInfo place_;
  Catch::Generators::GeneratorBasePtr generator_;
};

/// The state of the body that a rank runs. Catch2 would keep it in its own run context.
struct RunningBody {
  explicit RunningBody(BodyListener& listener) : body_runner(listener) {}

  void end_assertion(const Catch::AssertionInfo& info, Catch::ResultWas::OfType type, std::string message,
                     std::string expanded, Catch::AssertionReaction* reaction) {
    Catch::AssertionResultData data(type, Catch::LazyExpression(false));
    data.message = std::move(message);
    data.reconstructedExpression = std::move(expanded);
    const Catch::AssertionResult result(info, std::move(data));
    if (type == Catch::ResultWas::Ok) ++passed;
    last_passed = result.succeeded();
    body_runner.assertion_ended(result, messages);
    if (type != Catch::ResultWas::Warning) drop_unscoped();
    if (reaction == nullptr) return;
    if (type == Catch::ResultWas::ExplicitSkip) reaction->shouldSkip = true;
    if (!result.isOk()) reaction->shouldThrow = (info.resultDisposition & Catch::ResultDisposition::Normal) != 0;
  }

  void drop_unscoped() {
    for (const Catch::MessageInfo& message : unscoped) drop(message);
    unscoped.clear();
  }

  /// Drops the latest match. Messages of other ranks may have the same number. Messages of one rank end in reverse
  /// order.
  void drop(const Catch::MessageInfo& message) {
    const auto latest = std::ranges::find(messages.rbegin(), messages.rend(), message);
    if (latest != messages.rend()) messages.erase(std::prev(latest.base()));
  }

  CaseBodyRunner body_runner;
  std::uint64_t passed = 0;
  bool last_passed = false;
  std::vector<Catch::MessageInfo> messages;  ///< in scope
  std::vector<Catch::MessageInfo> unscoped;  ///< the messages in scope that the next assertion ends
  std::vector<std::unique_ptr<FirstValue>> generators;
};

// Catch2's macros name no rank. Their thread identifies the rank.
thread_local RunningBody* running = nullptr;

RunningBody& mine() {
  if (running == nullptr) {
    throw std::logic_error(
        "a Catch2 assertion or message outside a rank's thread: check results in the rank's own thread");
  }
  return *running;
}

class CaptureByThread final : public Catch::IResultCapture {
 public:
  void notifyAssertionStarted(const Catch::AssertionInfo& info) override {
    mine().body_runner.assertion_starting(info.lineInfo);
  }

  void handleExpr(const Catch::AssertionInfo& info, const Catch::ITransientExpression& expression,
                  Catch::AssertionReaction& reaction) override {
    const bool is_negated = Catch::isFalseTest(info.resultDisposition);
    if (expression.getResult() != is_negated) return assertionPassed();
    mine().end_assertion(info, Catch::ResultWas::ExpressionFailed, {}, expanded(expression, is_negated), &reaction);
  }
  void handleMessage(const Catch::AssertionInfo& info, Catch::ResultWas::OfType type, Words message,
                     Catch::AssertionReaction& reaction) override {
    mine().end_assertion(info, type, static_cast<std::string>(message), {}, &reaction);
  }
  void handleUnexpectedExceptionNotThrown(const Catch::AssertionInfo& info,
                                          Catch::AssertionReaction& reaction) override {
    handleNonExpr(info, Catch::ResultWas::DidntThrowException, reaction);
  }
  void handleUnexpectedInflightException(const Catch::AssertionInfo& info, std::string&& message,
                                         Catch::AssertionReaction& reaction) override {
    mine().end_assertion(info, Catch::ResultWas::ThrewException, std::move(message), {}, &reaction);
  }
  void handleIncomplete(const Catch::AssertionInfo& info) override {
    mine().end_assertion(info, Catch::ResultWas::ThrewException, "the assertion did not finish", {}, nullptr);
  }
  void handleNonExpr(const Catch::AssertionInfo& info, Catch::ResultWas::OfType type,
                     Catch::AssertionReaction& reaction) override {
    mine().end_assertion(info, type, {}, {}, &reaction);
  }

  bool sectionStarted(Catch::StringRef name, const Catch::SourceLineInfo& place, Catch::Counts&) override {
    mine().body_runner.refuse_section(static_cast<std::string>(name), place);
  }
  void sectionEnded(Catch::SectionEndInfo&&) override {}
  void sectionEndedEarly(Catch::SectionEndInfo&&) override {}

  Catch::IGeneratorTracker* acquireGeneratorTracker(Catch::StringRef name,
                                                    const Catch::SourceLineInfo& place) override {
    for (const auto& generator : mine().generators) {
      if (generator->is_at(name, place)) return generator.get();
    }
    return nullptr;
  }
  Catch::IGeneratorTracker* createGeneratorTracker(Catch::StringRef name, Catch::SourceLineInfo place,
                                                   Catch::Generators::GeneratorBasePtr&& generator) override {
    return mine().generators.emplace_back(std::make_unique<FirstValue>(name, place, std::move(generator))).get();
  }

  void pushScopedMessage(const Catch::MessageInfo& message) override { mine().messages.push_back(message); }
  void popScopedMessage(const Catch::MessageInfo& message) override { mine().drop(message); }
  void emplaceUnscopedMessage(Catch::MessageBuilder&& builder) override {
    Catch::MessageInfo& message = mine().unscoped.emplace_back(builder.m_info);
    message.message = builder.m_stream.str();
    mine().messages.push_back(message);
  }

  void benchmarkPreparing(Catch::StringRef) override {}
  void benchmarkStarting(const Catch::BenchmarkInfo&) override {}
  void benchmarkEnded(const Catch::BenchmarkStats<>&) override {}
  void benchmarkFailed(Catch::StringRef) override {}

  void handleFatalErrorCondition(Catch::StringRef) override {}  // for signals, which Catch2 does not handle here

  bool lastAssertionPassed() override { return mine().last_passed; }
  void assertionPassed() override {
    ++mine().passed;
    mine().last_passed = true;
    mine().drop_unscoped();
  }

  std::string getCurrentTestName() const override { return "shardproof ranked case"; }
  const Catch::AssertionResult* getLastResult() const override { return nullptr; }
  void exceptionEarlyReported() override {}

 private:
  static std::string expanded(const Catch::ITransientExpression& expression, bool is_negated) {
    std::ostringstream out;
    if (!is_negated) {
      out << expression;
    } else if (expression.isBinaryExpression()) {
      out << "!(" << expression << ')';
    } else {
      out << '!' << expression;
    }
    return out.str();
  }
};

class ThreadRun final : public BodyRunner {
 public:
  std::uint64_t run(const std::function<void()>& body, BodyListener& listener) override {
    RunningBody here(listener);
    const Current current(here);
    try {
      here.body_runner.run(body);
    } catch (...) {
      const Catch::AssertionInfo outside{"", {"", 0}, "", Catch::ResultDisposition::Normal};
      here.end_assertion(outside, Catch::ResultWas::ThrewException, Catch::translateActiveException(), {}, nullptr);
    }
    const bool would_run_again =
        std::ranges::any_of(here.generators, [](auto& generator) { return generator->has_another(); });
    if (would_run_again) here.body_runner.refuse_generator();
    return here.passed;
  }

 private:
  struct Current {
    explicit Current(RunningBody& body) { running = &body; }
    ~Current() { running = nullptr; }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
  };
};

Catch::ConfigData with_seed(std::uint32_t seed) {
  Catch::ConfigData data;
  data.rngSeed = seed;
  return data;
}

}  // namespace

struct ThreadRuns::State {
  explicit State(std::uint32_t seed) : config(with_seed(seed)) {
    Catch::Context& context = Catch::getCurrentMutableContext();
    context.setConfig(&config);
    context.setResultCapture(&capture);
  }
  ~State() {
    Catch::Context& context = Catch::getCurrentMutableContext();
    context.setResultCapture(nullptr);
    context.setConfig(nullptr);
  }

  Catch::Config config;
  CaptureByThread capture;
};

std::string ThreadRuns::why_none() { return {}; }

ThreadRuns::ThreadRuns(std::uint32_t seed) : state_(std::make_unique<State>(seed)) {}
ThreadRuns::~ThreadRuns() = default;

std::unique_ptr<BodyRunner> ThreadRuns::for_rank() { return std::make_unique<ThreadRun>(); }

}  // namespace shardproof::runner

#else

#include <stdexcept>

namespace shardproof::runner {

struct ThreadRuns::State {};

std::string ThreadRuns::why_none() {
  return "this program is built with a Catch2 in which ranks cannot be threads yet: build it with 3.4 to 3.7";
}

ThreadRuns::ThreadRuns(std::uint32_t) { throw std::runtime_error(why_none()); }
ThreadRuns::~ThreadRuns() = default;

std::unique_ptr<BodyRunner> ThreadRuns::for_rank() { return nullptr; }

}  // namespace shardproof::runner

#endif

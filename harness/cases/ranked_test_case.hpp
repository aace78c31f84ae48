// Macros and options to declare cases that run on several ranks at once. Each combination of world size and parameters
// is its own case.
//
//   RANKED_TEST_CASE("mine/all_gather_keeps_rank_order", ranks(2, 4)) {   // the body receives `Rank& rank`
//     …CHECK(…);
//   }
//
// The room `cases` declares cases. How a case runs belongs to `runner`.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/cases/spelled.hpp"
#include "harness/protocol/case_info.hpp"
#include "harness/protocol/feature.hpp"
#include "harness/world/rank.hpp"

namespace shardproof {

/// A seed test, and the parameters that it has in common with the case: `file::test[after=1,strategy=full_shard]` for
/// each combination.
struct SeedTest {
  std::string test;
  std::vector<std::pair<std::string, std::vector<std::string>>> params;
  /// Parameters that the seed test does not have. Only cases with these values descend from it.
  std::vector<std::pair<std::string, std::vector<std::string>>> where = {};
};

/// Features that only cases with this value of a parameter need.
struct ConditionalNeeds {
  std::string key, value;
  std::vector<Feature> features;
};

/// A declared case before its parameters are bound.
struct CaseDeclaration {
  std::string name;  ///< `suite/name`
  std::string file;
  int line = 0;
  void (*body)(Rank&) = nullptr;
  std::vector<int> ranks{2};
  std::vector<std::pair<std::string, std::vector<std::string>>> params;
  std::vector<std::string> optional_params;  ///< keys of parameters that one more case does not have
  std::string drawn_by;  ///< one of the parameters; empty: the case draws nothing
  std::vector<std::string> clauses;
  std::vector<std::string> tags;
  std::vector<Feature> needs;
  std::vector<ConditionalNeeds> conditional_needs;
  std::optional<std::vector<std::string>> engines;  ///< kinds of engines; none: the kind of the suite
  std::vector<SeedTest> seeds;
  std::chrono::milliseconds timeout{0};  ///< 0: the run's time for every case
  std::vector<int> more_ranks;  ///< world sizes only for runs that ask for them
  bool on_threads = false;
  int hosts = 1;  ///< the least number of hosts that its ranks must be on
};

/// The kind of engine of a suite. Its cases play on this kind, unless they name other kinds.
struct SuiteEngine {
  std::string suite;
  std::string engine;
  std::string file;
  int line = 0;
};

/// The clauses that judge each run on a kind of engine, in every case that plays it.
struct EngineClauses {
  std::string engine;
  std::string equal_collectives;  ///< The harness judges it: all ranks ask for the same collectives.
  std::string freed_memory;  ///< The harness judges it: a destroyed engine leaves no memory.
  /// Clauses that checks shared by many cases judge in their own scopes (Rank::under). A failure outside of all scopes
  /// does not name them, unless its case cites no other clause.
  std::vector<std::string> in_scopes;
  std::string file;
  int line = 0;
};

namespace options {
struct Ranks {
  std::vector<int> sizes;
};
struct MoreRanks {
  std::vector<int> sizes;
};
struct Clauses {
  std::vector<std::string> ids;
};
struct Tags {
  std::vector<std::string> names;
};
struct Needs {
  std::vector<Feature> features;
};
struct NeedsIf {
  ConditionalNeeds needs;
};
struct Engines {
  std::vector<std::string> kinds;
};
struct Each {
  std::string key;
  std::vector<std::string> values;
};
struct Also {
  Each param;
  std::vector<Feature> needs;
};
struct DrawnBy {
  std::string key;
  int usual;
};
struct Seed {
  SeedTest test;
};
struct Timeout {
  std::chrono::milliseconds time;
};
struct OnThreads {};
struct Hosts {
  int least;
};
}  // namespace options

template <class... Sizes> options::Ranks ranks(Sizes... sizes) { return {{static_cast<int>(sizes)...}}; }
/// World sizes in which the case is played too, but only in runs that ask for them: by `--ranks`, or by the whole id of
/// such a case.
template <class... Sizes> options::MoreRanks more_ranks(Sizes... sizes) { return {{static_cast<int>(sizes)...}}; }
template <class... Ids> options::Clauses clauses(Ids... ids) { return {{std::string(ids)...}}; }
template <class... Names> options::Tags tags(Names... names) { return {{std::string(names)...}}; }
template <class... Features> options::Needs needs(Features... features) { return {{features...}}; }
/// Features that only cases with this value of a parameter need: `needs_if("event", true, Feature::post_optim_event)`.
template <class Value, class... Features> options::NeedsIf needs_if(std::string key, Value value, Features... features);
/// The kinds of engines that the case plays on, instead of the kind of its suite. `rank.engine()` returns the kind. A
/// kind that is not the suite's is in the case's id: `[W=2,engine=flat_shard]`.
template <class... Kinds> options::Engines on_engines(Kinds... kinds) { return {{std::string(kinds)...}}; }
/// A case for every value: `each("event", false, true)`. Values are texts, integers, numbers or true and false.
template <class... Values> options::Each each(std::string key, Values... values);
/// One more case with this parameter, in addition to the cases without it:
/// `also("last_module", "discarded", Feature::module_groups)`. Cases with the parameter need the features. The body
/// asks `rank.find_param` whether its case has the parameter.
template <class Value, class... Features> options::Also also(std::string key, Value value, Features... features);
/// A case for each number from 1 to `usual`: `drawn_by("seed", 8)`. The number draws what the case plays. Greater
/// numbers are cases, too, in runs that ask for them by --generated or by the whole id. Such a case plays a given
/// scenario instead (given_scenario) if a run has --scenario.
inline options::DrawnBy drawn_by(std::string key, int usual) { return {std::move(key), usual}; }
/// The seed test that the case descends from: `file::test`. `each("strategy", "full_shard")` after it names a parameter
/// of the seed test, with the values that the seed test has; a case with another value descends from none.
template <class... Params> options::Seed seed(std::string test, Params... params) {
  return {{std::move(test), {{std::move(params.key), std::move(params.values)}...}}};
}
/// A seed test without parameters, from which only cases with these values descend: `seed_where("file::test",
/// each("sync", false))`.
template <class... Params> options::Seed seed_where(std::string test, Params... params) {
  return {{.test = std::move(test), .params = {}, .where = {{std::move(params.key), std::move(params.values)}...}}};
}
/// The time that the case may take if every rank has its own core. If n ranks share a core, the time is n times as
/// long.
inline options::Timeout timeout(std::chrono::milliseconds time) { return {time}; }
/// Its ranks, 128 at most, are threads of one process in every run (docs/thread-worlds.md); where they cannot be, the
/// case is skipped.
inline options::OnThreads on_threads() { return {}; }

/// The ranks of the case must be on `least` hosts or more. Where they are on fewer, the case is skipped. The body asks
/// `rank.placement()` which rank is on which host.
inline options::Hosts hosts(int least) { return {least}; }

/// A runtime starts threads in the case and keeps them after it, as MPI or CUDA does. Other threads must end with the
/// case. It is a tag of the case.
inline options::Tags keeps_threads() { return tags(std::string(protocol::keeps_threads_tag)); }

namespace detail {
void apply(CaseDeclaration& declaration, options::Ranks option);
void apply(CaseDeclaration& declaration, options::MoreRanks option);
void apply(CaseDeclaration& declaration, options::Clauses option);
void apply(CaseDeclaration& declaration, options::Tags option);
void apply(CaseDeclaration& declaration, options::Needs option);
void apply(CaseDeclaration& declaration, options::NeedsIf option);
void apply(CaseDeclaration& declaration, options::Engines option);
void apply(CaseDeclaration& declaration, options::Each option);
void apply(CaseDeclaration& declaration, options::Also option);
void apply(CaseDeclaration& declaration, options::DrawnBy option);
void apply(CaseDeclaration& declaration, options::Seed option);
void apply(CaseDeclaration& declaration, options::Timeout option);
void apply(CaseDeclaration& declaration, options::OnThreads option);
void apply(CaseDeclaration& declaration, options::Hosts option);

std::string spell(bool value);
std::string spell(int value);
std::string spell(double value);  ///< the shortest text that reads back as the same number
std::string spell(std::string value);
std::string spell(const char* value);

/// Adds a declaration to the program's list at start-up. rank_main reports its mistakes, because no caller can catch an
/// error before main.
struct Registration {
  template <class... Options>
  Registration(std::string name, const char* file, int line, void (*body)(Rank&), Options... options) {
    CaseDeclaration declaration{.name = std::move(name), .file = file, .line = line, .body = body};
    (apply(declaration, std::move(options)), ...);
    add(std::move(declaration));
  }
  static void add(CaseDeclaration declaration);
};

struct SuiteEngineRegistration {
  explicit SuiteEngineRegistration(SuiteEngine declaration);
};

struct EngineClausesRegistration {
  explicit EngineClausesRegistration(EngineClauses declaration);
};
}  // namespace detail

template <class... Values> options::Each each(std::string key, Values... values) {
  return {std::move(key), {detail::spell(values)...}};
}

template <class Value, class... Features> options::NeedsIf needs_if(std::string key, Value value,
                                                                    Features... features) {
  return {{std::move(key), detail::spell(value), {features...}}};
}

template <class Value, class... Features> options::Also also(std::string key, Value value, Features... features) {
  return {each(std::move(key), value), {features...}};
}

/// All declarations of the program, in order of file and line.
const std::vector<CaseDeclaration>& declared_cases();
/// The declarations by SUITE_ENGINE, in the same order.
const std::vector<SuiteEngine>& declared_suite_engines();
/// The declarations by ENGINE_CLAUSES, in the same order.
const std::vector<EngineClauses>& declared_engine_clauses();

}  // namespace shardproof

#define SHARDPROOF_CONCAT_(a, b) a##b
#define SHARDPROOF_CONCAT(a, b) SHARDPROOF_CONCAT_(a, b)
#define SHARDPROOF_RANKED_TEST_CASE(body, ...)                                                   \
  static void body([[maybe_unused]] ::shardproof::Rank& rank);                                   \
  namespace {                                                                                    \
  const ::shardproof::detail::Registration SHARDPROOF_CONCAT(body, _registration) = [] {         \
    using namespace ::shardproof; /* ranks, clauses, needs */                                    \
    using namespace ::std::chrono_literals; /* timeout(5s) */                                    \
    return ::shardproof::detail::Registration(SHARDPROOF_FIRST(__VA_ARGS__), __FILE__, __LINE__, \
                                              &body SHARDPROOF_REST(__VA_ARGS__));               \
  }();                                                                                           \
  }                                                                                              \
  static void body([[maybe_unused]] ::shardproof::Rank& rank)
#define SHARDPROOF_FIRST(first, ...) first
#define SHARDPROOF_REST(first, ...) __VA_OPT__(, ) __VA_ARGS__
#define RANKED_TEST_CASE(...) \
  SHARDPROOF_RANKED_TEST_CASE(SHARDPROOF_CONCAT(ranked_test_case_, __COUNTER__), __VA_ARGS__)

/// Declares the kind of engine of a suite, once, in one of its files: `SUITE_ENGINE("overlap", "fully_shard");`
#define SUITE_ENGINE(suite, engine)                                             \
  static const ::shardproof::detail::SuiteEngineRegistration SHARDPROOF_CONCAT( \
      suite_engine_, __COUNTER__)(::shardproof::SuiteEngine{suite, engine, __FILE__, __LINE__})

/// Declares the clauses of a kind of engine, once for all suites:
/// `ENGINE_CLAUSES(.engine = "fully_shard", .equal_collectives = "OVL-15", .freed_memory = "OVL-13", .in_scopes =
/// {"OVL-4"});`
#define ENGINE_CLAUSES(...)                                                       \
  static const ::shardproof::detail::EngineClausesRegistration SHARDPROOF_CONCAT( \
      engine_clauses_, __COUNTER__)(::shardproof::EngineClauses{__VA_ARGS__, .file = __FILE__, .line = __LINE__})

// The reference engine as a table of C functions does what it does: everything that is recorded of it is the same.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "fixtures/engines/reference.hpp"
#include "harness/protocol/subject_name.hpp"
#include "harness/scenario/builder.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "harness/scenario/player.hpp"
#include "harness/subject/abi/exported_subject.hpp"
#include "harness/subject/abi/table_subject.hpp"
#include "tests/engines/thread_ranks.hpp"
#include "tests/scenario/simulated.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

using MakeSubject = std::function<std::unique_ptr<Subject>()>;

std::unique_ptr<Subject> engine() { return std::make_unique<engines::Reference>(); }

/// What each rank records and captures; an error as its text.
struct Outcome {
  std::vector<Fact> facts;
  std::vector<Capture> captures;
  std::vector<Callback> callbacks;
  std::vector<scenario::Warning> warnings;
  std::size_t left_alive = 0;
  std::string error;
};

// A batch may be kept longer for a subject that cannot say whether it still needs it: when its memory goes is left out.
std::vector<Fact> without_loans(std::vector<Fact> facts) {
  std::set<std::uint64_t> lent;
  std::erase_if(facts, [&](const Fact& fact) {
    if (const auto* allocated = std::get_if<fact::Allocated>(&fact); allocated != nullptr && allocated->label == "input")
      lent.insert(allocated->buffer);
    const auto* released = std::get_if<fact::Released>(&fact);
    return released != nullptr && lent.contains(released->buffer);
  });
  return facts;
}

std::vector<Outcome> play_on(int ranks, const Scenario& scenario, const MakeSubject& make) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(ranks));
  on_thread_ranks(ranks, [&](int rank, Group& group) {
    Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    const auto subject = make();
    try {
      const Run run = testing::play_simulated(scenario, *subject, group, rank);
      outcome = {without_loans(run.trace().facts), run.captures(), run.callbacks(), run.warnings(), run.left_alive(), {}};
    } catch (const SubjectError& error) {
      outcome.error = error.what();
    }
  });
  return outcomes;
}

void check_alike(int ranks, const Scenario& scenario) {
  std::vector<std::unique_ptr<ExportedSubject>> exported;
  std::mutex mutex;
  const auto directly = play_on(ranks, scenario, engine);
  const auto through = play_on(ranks, scenario, [&] {
    const std::scoped_lock lock(mutex);
    return table_subject(exported.emplace_back(std::make_unique<ExportedSubject>(engine()))->table(), "exported", reference_subject);
  });
  for (std::size_t rank = 0; rank < directly.size(); ++rank) {
    CAPTURE(rank);
    CHECK(directly[rank].error == through[rank].error);
    CHECK(through[rank].left_alive == 0);
    CHECK(directly[rank].facts == through[rank].facts);
    CHECK(directly[rank].warnings == through[rank].warnings);
    REQUIRE(directly[rank].captures.size() == through[rank].captures.size());
    for (std::size_t i = 0; i < directly[rank].captures.size(); ++i) {
      const Capture &a = directly[rank].captures[i], &b = through[rank].captures[i];
      CHECK(a.loss == b.loss);
      REQUIRE(a.parameters.size() == b.parameters.size());
      for (std::size_t p = 0; p < a.parameters.size(); ++p) {
        CHECK(a.parameters[p].name == b.parameters[p].name);
        CHECK(a.parameters[p].start == b.parameters[p].start);
        CHECK(a.parameters[p].shard == b.parameters[p].shard);
        CHECK(a.parameters[p].second == b.parameters[p].second);
        CHECK(a.parameters[p].gradient == b.parameters[p].gradient);
      }
    }
    REQUIRE(directly[rank].callbacks.size() == through[rank].callbacks.size());
    for (std::size_t i = 0; i < directly[rank].callbacks.size(); ++i) {
      const Callback &a = directly[rank].callbacks[i], &b = through[rank].callbacks[i];
      CHECK(a.name == b.name);
      CHECK(a.sizes == b.sizes);
      CHECK(a.tensors == b.tensors);
      CHECK(a.stream == b.stream);
      REQUIRE(a.kind() == b.kind());
      if (const auto* pre = std::get_if<PreAllGather>(&a.detail)) {
        CHECK(pre->ticket == std::get<PreAllGather>(b.detail).ticket);
        CHECK(pre->context.has_value() == std::get<PreAllGather>(b.detail).context.has_value());
      } else if (const auto* post = std::get_if<PostAllGather>(&a.detail)) {
        CHECK(post->ticket == std::get<PostAllGather>(b.detail).ticket);
        CHECK((post->out == nullptr) == (std::get<PostAllGather>(b.detail).out == nullptr));
      }
    }
  }
}

Action extend(Extension extension) { return {.kind = ActionKind::extend, .extension = std::move(extension)}; }

}  // namespace

TEST_CASE("training through the table is training") {
  const int ranks = GENERATE(1, 2, 3);
  check_alike(ranks, sleeping_stack(3)
                         .forward(std::chrono::milliseconds(5))
                         .collectives(std::chrono::milliseconds(1))
                         .train(2, {.kind = OptimizerKind::adamw}));
}

TEST_CASE("hooks are called through the table as they are called") {
  const auto kind = GENERATE(ExtensionKind::components, ExtensionKind::bf16, ExtensionKind::int8);
  const auto form = GENERATE(ExtensionForm::full, ExtensionForm::minimal);
  Scenario scenario = sleeping_stack(2).reshard_after_forward(true).train(2, {});
  scenario.script.keep_tensors = true;
  scenario.script.segments.insert(scenario.script.segments.begin(),
                                  {.body = {extend({.parameter = "0.linear.weight", .kind = kind, .form = form})}});
  check_alike(2, scenario);
}

TEST_CASE("a mistake of a hook, a failing module and a refused plan are told through the table as they are told") {
  Scenario scenario = sleeping_stack(2).train(1, {});
  SECTION("a hook's") {
    scenario.script.segments.insert(scenario.script.segments.begin(),
                                    {.body = {extend({.parameter = "1.linear.weight", .kind = ExtensionKind::truncated})}});
  }
  SECTION("a module's") {
    scenario.script.segments.front().body.insert(scenario.script.segments.front().body.begin(),
                                                 {.kind = ActionKind::forward, .fails_in = "1"});
  }
  SECTION("a plan's") { fully_shard(scenario.plan).wrap.front().reshard_after_forward = {ReshardAfterForward::Kind::size, 7}; }
  check_alike(2, scenario);
}

TEST_CASE("what an exported subject asks of the harness, and what the far side is not for, is told") {
  const ExportedSubject exported(engine());
  const auto subject = table_subject(exported.table(), "exported", reference_subject);
  CHECK(subject->name() == reference_subject);
  CHECK(subject->version() == engine()->version());
  CHECK(subject->claims() == engine()->claims());
  CHECK(subject->prepare().ok());
}

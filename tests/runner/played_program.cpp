// A program with subjects and a fault of its own. The subjects do nothing; how they are chosen, broken and left is what
// is tested.
#include <shardproof.hpp>

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/player/play.hpp"
#include "harness/runner/play/play_main.hpp"
#include "harness/scenario/builder.hpp"
#include "harness/scenario/plan/engine_section.hpp"
#include "harness/scenario/plan/flat_shard.hpp"
#include "harness/scenario/plan/foreign_section.hpp"

using namespace shardproof;

namespace {

class IdleTrainer final : public Trainer {
 public:
  explicit IdleTrainer(bool leaks, const EngineContext& engine_context)
      : device_(engine_context.device), leaks_(leaks) {}
  Reply perform(const Action& action, const Batch&) override {
    static std::vector<std::shared_ptr<Storage>> kept;
    if (leaks_ && action.kind == ActionKind::forward) {
      kept.push_back(device_.allocate(Device::compute, 64, MemoryClass::parameter, "kept"));
    }
    return {};
  }
  Reply loss(Tensor&) override { return Reply::failed("no loss"); }
  Reply parameters(std::vector<ParameterView>&) override { return {}; }

 private:
  Device& device_;
  bool leaks_;
};

class IdleSubject final : public Subject {
 public:
  IdleSubject(std::string_view name, Claims claims, bool leaks)
      : name_(name), claims_(std::move(claims)), leaks_(leaks) {}
  std::string_view name() const override { return name_; }
  std::string_view version() const override { return "1"; }
  Claims claims() const override { return claims_; }
  Reply create(const Model&, const Plan&, const EngineContext& engine_context, std::unique_ptr<Trainer>& out) override {
    out = std::make_unique<IdleTrainer>(leaks_, engine_context);
    return {};
  }

 private:
  std::string_view name_;
  Claims claims_;
  bool leaks_;
};

std::unique_ptr<EngineSection> read_nothing(const scenario::Node&) { return nullptr; }

const EngineKindRegistration first({.name = "first", .read = read_nothing}),
    second({.name = "second", .read = read_nothing}), third({.name = "third", .read = read_nothing});

}  // namespace

RANKED_TEST_CASE("play/idle", ranks(2), needs(Feature::timeline)) {
  const auto run = play(rank, sleeping_stack(1));
  CHECK(run.iterations().front().forward() == 0);
}

RANKED_TEST_CASE("play/needs_both", ranks(2), needs(Feature::timeline, Feature::module_groups)) {
  CHECK(rank.index() >= 0);
}

RANKED_TEST_CASE("play/of_its_kind", ranks(2), on_engines("fully_shard")) {
  CHECK(play(rank, sleeping_stack(1)).races().empty());
}

RANKED_TEST_CASE("play/of_another_kind", ranks(2), on_engines("fully_shard")) {
  Scenario scenario = sleeping_stack(1);
  scenario.plan.engine = ChosenEngine(std::make_unique<FlatShardPlan>());
  flat_shard_plan(scenario.plan).wrap = {""};
  play(rank, scenario);
  CHECK(rank.index() >= 0);
}

RANKED_TEST_CASE("play/of_no_kind", ranks(2), on_engines("fully_shard")) {
  Scenario scenario = sleeping_stack(1);
  scenario.plan.engine = ChosenEngine(std::make_unique<scenario::ForeignSection>());
  CHECK(play(rank, scenario).races().empty());
}

ENGINE_CLAUSES(.engine = "fully_shard", .equal_collectives = "PLY-2", .freed_memory = "PLY-1", .in_scopes = {"PLY-3"});

RANKED_TEST_CASE("play/judged", ranks(2), on_engines("fully_shard"), clauses("PLY-3", "PLY-4")) {
  CHECK(play(rank, sleeping_stack(1)).left_alive() == 0);
}

RANKED_TEST_CASE("play/leaking", ranks(2), on_engines("fully_shard"), clauses("PLY-4")) {
  CHECK(play(rank, sleeping_stack(1)).races().empty());
}

RANKED_TEST_CASE("play/unlike", ranks(2), on_engines("fully_shard"), clauses("PLY-4")) {
  CHECK(rank.index() >= 0);
  rank.world().all_gather(iota(0, 2 + rank.index()));
}

SUITE_ENGINE("kinds", "first");

RANKED_TEST_CASE("kinds/own", ranks(2), needs(Feature::serial)) { CHECK(rank.engine() == "first"); }

RANKED_TEST_CASE("kinds/each", ranks(2), on_engines("first", "second", "third"), needs(Feature::timeline)) {
  CHECK(rank.engine() == "first");
}

RANKED_TEST_CASE("kinds/nothing", ranks(2)) { CHECK(rank.engine() == "first"); }

RANKED_TEST_CASE("play/no_kind", ranks(2)) { CHECK_THROWS_AS(rank.engine(), std::logic_error); }

RANKED_TEST_CASE("play/in_order", ranks(2)) {
  for (int i = 0; i < 4; ++i) CHECK(play(rank, sleeping_stack(1)).races().empty());
}

RANKED_TEST_CASE("play/twice", ranks(2)) {
  CHECK(play(rank, sleeping_stack(1)).races().empty());
  CHECK(play(rank, sleeping_stack(2)).races().empty());
}

int main(int argc, char** argv) {
  PlayProgram program;
  program.suite_version = "3";
  program.subjects = {[] {
                        return std::make_unique<IdleSubject>("idle",
                                                             Claims{{"first", {Feature::timeline, Feature::serial}},
                                                                    {"second", {Feature::module_groups}},
                                                                    {"fully_shard", {}}},
                                                             false);
                      },
                      [] { return std::make_unique<IdleSubject>("modest", Claims{{"first", {}}}, false); }};
  program.faults = {{{"leak", {"PLY-1"}, "keeps what it allocates"},
                     [](std::unique_ptr<Subject> subject) -> std::unique_ptr<Subject> {
                       return std::make_unique<IdleSubject>("idle with a leak", subject->claims(), true);
                     }}};
  program.clause_tables = {"| PLY-1 | required | releases its memory |"};
  return play_main(argc, argv, program);
}

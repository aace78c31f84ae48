// A program with wrong engine kinds, and with cases that no subject could ever play: no case of it may run.
#include <shardproof.hpp>

#include "harness/runner/play/play_main.hpp"
#include "harness/scenario/plan/engine_section.hpp"
#include "harness/scenario/plan/fully_shard.hpp"

using namespace shardproof;

namespace {

std::unique_ptr<EngineSection> read_nothing(const scenario::Node&) { return nullptr; }

const EngineKindRegistration first({.name = "twin", .read = read_nothing}),
    second({.name = "twin", .read = read_nothing}), shipped({.name = "fully_shard", .read = read_nothing}),
    shared({.name = "mesh", .read = read_nothing}), foreign({.name = "no_engine", .read = read_nothing}),
    nameless({.name = "", .read = read_nothing});

constexpr Feature known_to_all[] = {Feature::serial};
const EngineKindRegistration greedy({.name = "greedy", .read = read_nothing, .own_features = known_to_all});

}  // namespace

SUITE_ENGINE("doubled", "fully_shrad");

RANKED_TEST_CASE("doubled/own_feature", ranks(1, 2), on_engines("fully_shard", "twin"),
                 needs(FullyShardFeature::shard_dims)) {
  CHECK(rank.index() == 0);
}

RANKED_TEST_CASE("doubled/misspelt", ranks(1), on_engines("fully_shard", "twim")) { CHECK(rank.index() == 0); }

RANKED_TEST_CASE("doubled/nothing", ranks(1)) { CHECK(rank.index() == 0); }

int main(int argc, char** argv) { return play_main(argc, argv); }

// A program that registers engine kinds with equal names: no case of it may run.
#include <shardproof.hpp>

#include "harness/cases/rank_main.hpp"
#include "harness/scenario/plan/engine_section.hpp"

using namespace shardproof;

namespace {

std::unique_ptr<scenario::EngineSection> read_nothing(const scenario::Node&) { return nullptr; }

const scenario::EngineKindRegistration first({.name = "twin", .read = read_nothing}), second({.name = "twin", .read = read_nothing}),
    shipped({.name = "fully_shard", .read = read_nothing}), shared({.name = "mesh", .read = read_nothing}),
    nameless({.name = "", .read = read_nothing});

}  // namespace

RANKED_TEST_CASE("doubled/nothing", ranks(1)) { CHECK(rank.index() == 0); }

int main(int argc, char** argv) { return rank_main(argc, argv); }

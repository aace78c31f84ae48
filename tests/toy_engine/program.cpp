// A program with a kind of engine of its own, beside the kinds that ship.
#include <memory>
#include <vector>

#include "fixtures/engines/reference.hpp"
#include "harness/runner/play/play_main.hpp"
#include "tests/toy_engine/engine.hpp"

using namespace shardproof;

int main(int argc, char** argv) {
  PlayProgram program;
  program.suite_version = "1";
  program.subjects = {[] {
    std::vector<engines::Engine> engines = engines::shipped_engines();
    engines.push_back(toy::toy_engine());
    return std::make_unique<engines::Reference>(std::move(engines));
  }};
  program.faults = declared_faults();
  program.clause_tables = {
      "| TOY-1 | required | gradients are the mean over all ranks, and steps follow them |\n"
      "| TOY-2 | required | each backward makes one all-reduce |"};
  return play_main(argc, argv, program);
}

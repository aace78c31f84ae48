// An engine that trains nothing and says that it compiled its step. From the third backward on it plays another step.
#include <memory>
#include <vector>

#include "harness/runner/play/play_main.hpp"
#include "tests/player/compiling_subject.hpp"
#include "tests/protocol/sample_step.hpp"

using namespace shardproof;

int main(int argc, char** argv) {
  PlayProgram program;
  program.subjects.emplace_back([] {
    return std::make_unique<testing::CompilingSubject>([](int backward, std::vector<StepGraph>& out) {
      out = {testing::sample_backward()};
      if (backward >= 2) out.front().nodes[2].op = ReduceOp::avg;
      return Reply();
    });
  });
  return play_main(argc, argv, program);
}

// The worker whose engines are mutated. Its trainers count their passes, for mutants that begin late.
#include <memory>
#include <utility>

#include "harness/faults/wrappers.hpp"
#include "tests/mutants/active.hpp"
#include "worker/program.hpp"

namespace shardproof {

namespace {

class CountingTrainer final : public TrainerWrapper {
 public:
  using TrainerWrapper::TrainerWrapper;
  ~CountingTrainer() override {
    inner_.reset();
    mutants::end_trainer();
  }

  Reply perform(const scenario::Action& action, const Batch& batch) override {
    if (action.kind == scenario::ActionKind::forward) mutants::begin_pass();
    return TrainerWrapper::perform(action, batch);
  }
};

std::unique_ptr<Subject> counting(std::unique_ptr<Subject> subject) {
  return altered(std::move(subject),
                 {.trainer = [](std::unique_ptr<Trainer> trainer) { return std::make_unique<CountingTrainer>(std::move(trainer)); }});
}

Program mutant_program() {
  Program program = worker_program();
  for (auto& make : program.subjects) make = [make] { return counting(make()); };
  return program;
}

}  // namespace

}  // namespace shardproof

int main(int argc, char** argv) { return shardproof::rank_main(argc, argv, shardproof::mutant_program()); }

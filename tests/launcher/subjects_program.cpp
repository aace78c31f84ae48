// Several subjects in one program, which do nothing: what counts is which of them a run is about.
#include <shardproof.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "harness/runner/play/play_main.hpp"

using namespace shardproof;

namespace {

class Named final : public Subject {
 public:
  explicit Named(std::string name) : name_(std::move(name)) {}
  std::string_view name() const override { return name_; }
  std::string_view version() const override { return "1"; }
  Claims claims() const override { return name_ == "misspelt" ? Claims{{"fully_shrad", {}}} : Claims(); }
  bool wants_preparation() const override { return name_ == "warm"; }
  Reply prepare() override {
    // A line for each time.
    if (const char* const file = std::getenv("PREPARED")) std::ofstream(file, std::ios::app) << name_ << std::endl;
    return {};
  }
  Reply create(const Model&, const Plan&, const EngineContext&, std::unique_ptr<Trainer>&) override {
    return Reply::failed(name_ + " trains nothing");
  }

 private:
  std::string name_;
};

bool is_broken = false;  // what a case tests; this process runs one world

std::unique_ptr<Subject> broken(std::unique_ptr<Subject> subject) {
  is_broken = true;
  return subject;
}

}  // namespace

RANKED_TEST_CASE("subject/works", ranks(1), clauses("SUB-1")) {
  if (const char* const cache = std::getenv("TORCHINDUCTOR_CACHE_DIR")) std::printf("cache %s\n", cache);
  CHECK_FALSE(is_broken);
}
RANKED_TEST_CASE("kind/plays", ranks(1), on_engines("fully_shard"), clauses("SUB-1")) { CHECK(rank.index() == 0); }
RANKED_TEST_CASE("subject/fails", ranks(1), clauses("SUB-2")) { CHECK(rank.world().size() == 2); }

int main(int argc, char** argv) {
  PlayProgram program;
  for (const char* name : {"first", "second", "pytorch", "warm", "misspelt"})
    program.subjects.push_back([name] { return std::make_unique<Named>(name); });
  program.faults = {{{"broken", {"SUB-1"}, "one that is seen"}, broken}};
  program.clause_tables = {"| SUB-1 | required | works |\n| SUB-2 | required | fails |"};
  return play_main(argc, argv, program);
}

// Cases with clauses, and faults that break them: of the three, one that its case notices, one that its case overlooks,
// and one that no case looks for.
#include <shardproof.hpp>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "harness/runner/play/play_main.hpp"

using namespace shardproof;

namespace {

bool is_broken = false;  // what the cases test; this process runs one world

class Nothing final : public Subject {
 public:
  std::string_view name() const override { return "nothing"; }
  std::string_view version() const override { return "1"; }
  Claims claims() const override { return {}; }
  Reply create(const Model&, const Plan&, const EngineContext&, std::unique_ptr<Trainer>&) override {
    return Reply::failed("it trains nothing");
  }
};

std::unique_ptr<Subject> broken(std::unique_ptr<Subject> subject) {
  is_broken = true;
  return subject;
}

}  // namespace

RANKED_TEST_CASE("seen/looks", ranks(1), more_ranks(2), clauses("SEE-1")) { CHECK_FALSE(is_broken); }
RANKED_TEST_CASE("blind/looks_away", ranks(1), clauses("BLD-1")) { CHECK(true); }
RANKED_TEST_CASE("plain/has_no_clause", ranks(1)) { CHECK(true); }

int main(int argc, char** argv) {
  PlayProgram program;
  program.subjects = {[] { return std::make_unique<Nothing>(); }};
  program.faults = {{{"noticed", {"SEE-1"}, "one that is seen"}, broken},
                    {{"overlooked", {"BLD-1"}, "one that nobody sees"}, broken},
                    {{"unguarded", {"NOT-1"}, "one that nobody looks for"}, broken}};
  for (int number = 0; number < 5 && std::getenv("MORE_FAULTS") != nullptr; ++number)
    program.faults.push_back({{"unguarded_" + std::to_string(number), {"NOT-1"}, "one more"}, broken});
  program.clause_tables = {
      "| SEE-1 | required | is seen |\n| BLD-1 | required | is not |\n| NOT-1 | required | has no case |"};
  return play_main(argc, argv, program);
}

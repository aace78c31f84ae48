// Cases with clauses, and faults that break them: of the three, one that its case notices, one that its case overlooks,
// and one that no case looks for.
#include <shardproof.hpp>

#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include "tests/launcher/breakable.hpp"

using namespace shardproof;
using namespace shardproof::launcher::testing;

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

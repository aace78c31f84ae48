// Cases, clauses, faults and messages with long names, for the tables of commands.
#include <shardproof.hpp>

#include <memory>
#include <string>

#include "tests/launcher/breakable.hpp"

using namespace shardproof;
using namespace shardproof::launcher::testing;

namespace {

std::string many_words() {
  std::string text;
  for (int number = 0; number < 40; ++number) text += "word " + std::to_string(number) + " ";
  return text;
}

}  // namespace

#define LONG_NAME "a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on_and_on"

RANKED_TEST_CASE("wide/" LONG_NAME, ranks(1), each("parameter_with_a_long_name", 1, 2, 3), clauses("WID-1", "WID-2"),
                 tags("a_tag_of_a_case", "another_tag_of_a_case")) {
  INFO(many_words());
  rank.measure("a_measurement_with_a_long_name_" LONG_NAME, is_broken ? 1 : 2, "");
  CHECK_FALSE(is_broken);
}
RANKED_TEST_CASE("skipped/" LONG_NAME, ranks(1), each("parameter_with_a_long_name", 1, 2, 3)) {
  rank.skip("it is skipped because of " + many_words());
}

int main(int argc, char** argv) {
  PlayProgram program;
  program.subjects = {[] { return std::make_unique<Nothing>(); }};
  for (int number = 0; number < 30; ++number)
    program.faults.push_back({{"fault_" + std::to_string(number), {"WID-1"}, "one with " + many_words()}, broken});
  const std::string table = "| WID-1 | required | " + many_words() + "|\n| WID-2 | required | is short |";
  program.clause_tables = {table};
  return play_main(argc, argv, program);
}

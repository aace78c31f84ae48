#include "launcher/contenders.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <string>

#include "tests/launcher/refusal.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("two subjects are told apart by a comma, and a fault from its subject by the last plus") {
  using Two = std::array<NamedSubject, 2>;
  CHECK(two_subjects("reference,pytorch") == Two{{{"reference", ""}, {"pytorch", ""}}});
  CHECK(two_subjects("reference,reference+late_gather") == Two{{{"reference", ""}, {"reference", "late_gather"}}});
  CHECK(two_subjects("./a+b.so+fault,c++") == Two{{{"./a+b.so", "fault"}, {"c++", ""}}});
  CHECK(two_subjects("./a+b.so,/c+d/e.so") == Two{{{"./a+b.so", ""}, {"/c+d/e.so", ""}}});
  CHECK(names_two("a,b"));
  CHECK_FALSE(names_two("a+b"));
}

TEST_CASE("what does not name two subjects is refused with what would") {
  for (const std::string asked : {"a,", ",b", ",", "a,b,c", "a", ""}) {
    CAPTURE(asked);
    CHECK_THAT(refusal([&] { two_subjects(asked); }), ContainsSubstring("two subjects are given as A,B"));
  }
}

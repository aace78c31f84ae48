// Rows in which any two traits meet.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/scenario/generator/pairwise.hpp"

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

const std::vector<Trait> letters{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};

bool always(Trait, Trait) { return true; }
bool any_trait(Trait) { return true; }

using Pairs = std::set<std::pair<Trait, Trait>>;

void note(Pairs& met, const std::vector<Trait>& row) {
  for (const Trait one : row) {
    for (const Trait other : row) {
      if (one < other) met.emplace(one, other);
    }
  }
}

}  // namespace

TEST_CASE("a few rows have all pairs") {
  PairwiseRows rows(letters, always, always);
  Pairs met;
  int count = 0;
  for (; !rows.is_complete(); ++count) {
    const std::vector<Trait> row = rows.next(4, any_trait, 7);
    CHECK(row.size() == 4);
    CHECK(std::set(row.begin(), row.end()).size() == 4);
    note(met, row);
  }
  CHECK(met.size() == 66);
  CHECK(count >= 11);  // 6 pairs in each
  CHECK(count <= 22);
}

TEST_CASE("a row never has two traits that do not fit, and only pairs that are asked for count") {
  const auto fit = [](Trait one, Trait other) {
    return std::minmax(one, other) != std::minmax(Trait("a"), Trait("b"));
  };
  const auto about_c = [](Trait one, Trait other) { return one == "c" || other == "c"; };
  PairwiseRows rows(letters, fit, about_c);
  Pairs met;
  int count = 0;
  for (; !rows.is_complete(); ++count) note(met, rows.next(4, any_trait, 7));
  CHECK_FALSE(met.contains({"a", "b"}));
  for (const Trait other : letters) {
    if (other != "c") CHECK(met.contains(std::minmax(Trait("c"), other)));
  }
  CHECK(count == 4);  // three others in each
}

TEST_CASE("a row has only allowed traits, and depends on what came before and on its seed") {
  PairwiseRows rows(letters, always, always);
  const auto is_early = [](Trait trait) { return trait < "d"; };
  for (const Trait trait : rows.next(4, is_early, 1)) CHECK(is_early(trait));
  PairwiseRows same = rows, other = rows;
  const std::vector<Trait> next = rows.next(4, any_trait, 2);
  CHECK(same.next(4, any_trait, 2) == next);
  CHECK(other.next(4, any_trait, 3) != next);
}

TEST_CASE("more than 64 traits are refused") {
  std::vector<std::string> names;
  for (int i = 0; i < 65; ++i) names.push_back(std::to_string(i));
  CHECK_THROWS_AS(PairwiseRows({names.begin(), names.end()}, always, always), std::invalid_argument);
}

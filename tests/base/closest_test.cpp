#include "harness/base/closest.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

using namespace shardproof;

TEST_CASE("a misspelt name is answered with the closest one, or with those that exist") {
  CHECK(base::closest({"fully_shard", "flat_shard"}, "fully_shrad") == "fully_shard");
  CHECK(base::closest({"adam", "adamw"}, "adamW") == "adamw");
  CHECK(base::closest({"layer", "head"}, "zebra crossing").empty());
  CHECK(base::closest_hint({"layer", "head"}, "lair") == "closest is 'layer'; ");
  CHECK(base::closest_hint({"layer", "head"}, "x").empty());
  CHECK(base::closest_or_all({"fully_shard", "flat_shard"}, "fully_shrad") == "closest is \"fully_shard\"");
  CHECK(base::closest_or_all({"layer", "head"}, "x") == "there are \"head\", \"layer\"");
  CHECK(base::closest_or_all({"layer"}, "x") == "there is \"layer\"");
  CHECK(base::closest_or_all({}, "x") == "there is none");
}

TEST_CASE("an unknown name of the command line is answered with the closest one and with all") {
  const std::vector<std::string> known{"wide", "alone"};
  CHECK(base::unknown_name("profile", "wild", known) ==
        "unknown profile 'wild'; closest is 'wide'; known: wide, alone");
  CHECK(base::unknown_name("profile", "x", known) == "unknown profile 'x'; known: wide, alone");
}

TEST_CASE("of many names only some are listed") {
  std::set<std::string> many;
  for (char name = 'a'; name <= 'z'; ++name) many.insert(std::string(3, name));
  const std::string all = base::closest_or_all(many, "0");
  CHECK(all.starts_with("there are \"aaa\", \"bbb\", "));
  CHECK(all.ends_with("\"lll\" and 14 more"));
}

// Where ranks are: their hosts, local ranks, and hosts as a grid.
#include "harness/protocol/placement.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace shardproof {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Message;
using Ranks = std::vector<int>;

Placement placed(const std::vector<std::string>& hosts) {
  Placement placement;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank)
    placement.add(static_cast<int>(rank), hosts[rank], "id of " + hosts[rank]);
  return placement;
}

TEST_CASE("a rank's local rank is its place among the ranks of its host") {
  const Placement cyclic = placed({"n1", "n2", "n1", "n2", "n2"});
  REQUIRE(cyclic.hosts().size() == 2);
  CHECK(cyclic.hosts()[0].ranks == Ranks{0, 2});
  CHECK(cyclic.hosts()[1].ranks == Ranks{1, 3, 4});
  CHECK(cyclic.host_of(4).name == "n2");
  CHECK(cyclic.local_rank(0) == 0);
  CHECK(cyclic.local_rank(2) == 1);
  CHECK(cyclic.local_rank(4) == 2);
  CHECK(cyclic.find(5) == nullptr);
  CHECK_THROWS_WITH(cyclic.host_of(5), "the host of rank 5 is not known");
}

TEST_CASE("hosts are distinguished by their ids, not by their names") {
  Placement placement;
  CHECK(placement.add(0, "node", "a") == 0);
  CHECK(placement.add(1, "node", "b") == 1);
  CHECK(placement.add(2, "other name", "a") == 0);
  CHECK(placement.hosts().size() == 2);
}

TEST_CASE("equal blocks of ranks are a grid") {
  CHECK(placed({"n1", "n1", "n2", "n2"}).grid() == HostGrid{.hosts = 2, .ranks_per_host = 2});
  CHECK(placed({"n1", "n2", "n3"}).grid() == HostGrid{.hosts = 3, .ranks_per_host = 1});
  CHECK(placed({"n1", "n1"}).grid() == HostGrid{.hosts = 1, .ranks_per_host = 2});
}

TEST_CASE("other placements are no grid, and the text says why") {
  CHECK_THROWS_MATCHES(placed({"n1", "n1", "n2"}).grid(), std::invalid_argument,
                       Message("the hosts have different numbers of ranks: ranks 0, 1 on n1, rank 2 on n2"));
  CHECK_THROWS_MATCHES(placed({"n1", "n2", "n1", "n2"}).grid(), std::invalid_argument,
                       Message("the ranks are not numbered host by host: ranks 0, 2 on n1, ranks 1, 3 on n2"));
  CHECK_THROWS_AS(Placement().grid(), std::invalid_argument);
}

TEST_CASE("texts of many hosts are cut") {
  CHECK(placed({"n1"}).names() == "n1");
  CHECK(placed({"n1", "n2"}).names() == "n1 and n2");
  CHECK(placed({"n1", "n2", "n3"}).names() == "n1, n2 and n3");
  const Placement five = placed({"n1", "n2", "n3", "n4", "n5"});
  CHECK(five.names() == "n1, n2, n3 and 2 more");
  CHECK(five.text() == "rank 0 on n1, rank 1 on n2, rank 2 on n3, 2 more hosts");
}

TEST_CASE("a placement that no world has is refused") {
  const std::vector<PlacedHost> right{{"n1", "a", {0, 2}}, {"n2", "b", {1}}};
  CHECK(Placement(right).hosts() == right);
  const auto refused = [](std::vector<PlacedHost> hosts, const std::string& why) {
    CHECK_THROWS_WITH(Placement(std::move(hosts)), ContainsSubstring(why));
  };
  refused({{"n1", "a", {}}}, "no rank is on n1");
  refused({{"n1", "a", {0}}, {"n2", "a", {1}}}, "the id a is listed twice");
  refused({{"n1", "a", {0, 1}}, {"n2", "b", {1}}}, "rank 1 is listed twice");
  refused({{"n1", "a", {1, 0}}}, "not ascending");
  refused({{"n1", "a", {1}}, {"n2", "b", {0}}}, "n2 is not in the order of first ranks");
}

}  // namespace
}  // namespace shardproof

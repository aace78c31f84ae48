// Which cases a command is about, by profile.
#include "launcher/worker_client/profile.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "launcher/launcher.hpp"

using namespace shardproof;
using namespace shardproof::launcher;

namespace {

using Ids = std::vector<std::string>;

protocol::Listing profiled_listing() {
  protocol::Listing result;
  result.profiles = {{.name = "wide", .text = "no slow ones", .without_tags = {"slow"}},
                     {.name = "alone", .text = "one rank", .most_ranks = 1},
                     {.name = "huge", .text = "many ranks", .least_ranks = 9}};
  for (const int size : {1, 2}) {
    protocol::CaseInfo info;
    info.id = protocol::case_id("a/quick", {{"W", std::to_string(size)}});
    info.suite = "a";
    info.world_size = size;
    result.cases.push_back(info);
    info.id = protocol::case_id("b/slow", {{"W", std::to_string(size)}});
    info.suite = "b";
    info.tags = {"slow"};
    result.cases.push_back(info);
  }
  return result;
}

Ids ids(const protocol::Listing& of) {
  Ids result;
  for (const protocol::CaseInfo& info : of.cases) result.push_back(info.id);
  return result;
}

std::string refusal(protocol::Listing of, const std::string& profile, const Ids& filters = {}) {
  try {
    keep_profile(of, profile, filters);
  } catch (const CommandError& error) {
    CHECK(error.code() == usage);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a profile leaves its cases; without a name it is the worker's first") {
  protocol::Listing all = profiled_listing();
  const ChosenProfile wide = keep_profile(all, "", {});
  CHECK(wide.name == "wide");
  CHECK(wide.outside == 2);
  CHECK(ids(all) == Ids{"a/quick[W=1]", "a/quick[W=2]"});

  protocol::Listing other = profiled_listing();
  CHECK(keep_profile(other, "alone", Ids{"b"}).outside == 2);
  CHECK(ids(other) == Ids{"a/quick[W=1]", "b/slow[W=1]"});
}

TEST_CASE("a worker without profiles has all of its cases") {
  protocol::Listing plain = profiled_listing();
  plain.profiles.clear();
  CHECK(keep_profile(plain, "", {}).name.empty());
  CHECK(plain.cases.size() == 4);
  CHECK(refusal(plain, "wide") == "unknown profile 'wide': this worker has no profile");
}

TEST_CASE("an error names a profile or case that does not exist") {
  CHECK(refusal(profiled_listing(), "wild") == "unknown profile 'wild'; closest is 'wide'; known: wide, alone, huge");
  CHECK(refusal(profiled_listing(), "tiny") == "unknown profile 'tiny'; known: wide, alone, huge");
  CHECK(refusal(profiled_listing(), "huge") ==
        "profile 'huge' has no case of this worker (`shardproof list --profiles`)");
  CHECK(refusal(profiled_listing(), "wide", {"a", "b"}) ==
        "'b' matches only cases outside profile 'wide' (`shardproof list --profiles`)");
  CHECK(refusal(profiled_listing(), "wide", {"c"}) == "accepted");  // no case at all: the selection reports that
  protocol::Listing none = profiled_listing();
  none.cases.clear();
  CHECK(refusal(none, "wide") == "accepted");
}

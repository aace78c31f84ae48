#include "harness/player/callback.hpp"

#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

using namespace shardproof;
using namespace shardproof::scenario;

namespace {

Callback pre_of(std::string name, int iteration, std::string during) {
  return {.name = std::move(name), .iteration = iteration, .during = std::move(during), .detail = PreAllGather()};
}

Callback post_of(std::string name, int iteration, std::string during) {
  return {.name = std::move(name), .iteration = iteration, .during = std::move(during), .detail = PostAllGather()};
}

const std::vector<Callback> seven{pre_of("b", 0, "forward"), post_of("b", 0, "forward"), pre_of("a", 0, "forward"),
                                  pre_of("b", 1, "forward"), pre_of("b", 1, "backward"), post_of("b", 1, "backward"),
                                  pre_of("b", 1, "backward")};

}  // namespace

TEST_CASE("callbacks are counted by kind, name, iteration and call") {
  using enum CallbackKind;
  CHECK(count(seven, {}) == 7);
  CHECK(count(seven, {.kind = pre_all_gather}) == 5);
  CHECK(count(seven, {.kind = post_all_gather}) == 2);
  CHECK(count(seven, {.name = "b"}) == 6);
  CHECK(count(seven, {.iteration = 0}) == 3);
  CHECK(count(seven, {.during = "backward"}) == 3);
  CHECK(count(seven, {.kind = pre_all_gather, .name = "b", .iteration = 1}) == 3);
  CHECK(count(seven, {.kind = pre_all_gather, .name = "b", .iteration = 1, .during = "backward"}) == 2);
  CHECK(count(seven, {.kind = post_all_gather, .name = "a"}) == 0);
  CHECK(count(seven, {.name = ""}) == 0);
  CHECK(count({}, {}) == 0);
}

TEST_CASE("selected callbacks keep their order") {
  using enum CallbackKind;
  CHECK(select(seven, {.kind = post_all_gather}) == std::vector<const Callback*>{&seven[1], &seven[5]});
  CHECK(select(seven, {.name = "b", .iteration = 1, .during = "forward"}) == std::vector<const Callback*>{&seven[3]});
  CHECK(select(seven, {.iteration = 2}).empty());
}

TEST_CASE("names of callbacks are sorted, each once") {
  using enum CallbackKind;
  CHECK(names(seven, {}) == std::vector<std::string>{"a", "b"});
  CHECK(names(seven, {.kind = post_all_gather}) == std::vector<std::string>{"b"});
  CHECK(names(seven, {.iteration = 2}).empty());
}

TEST_CASE("the detail of a callback says its kind") {
  using enum CallbackKind;
  CHECK(seven[0].kind() == pre_all_gather);
  CHECK(seven[1].kind() == post_all_gather);
  CHECK(Callback{.detail = GradientHookCall()}.kind() == gradient_hook);
  CHECK(to_string(gradient_hook) == "gradient_hook");
  CHECK(to_string(pre_all_gather) == "pre_all_gather");
  CHECK(to_string(post_all_gather) == "post_all_gather");
}

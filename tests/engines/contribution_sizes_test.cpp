// The messages of ranks about the contributions of their extensions, and the result that ranks compute from these.
#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "fixtures/engines/fully_shard/contribution_sizes.hpp"

using namespace shardproof;
using namespace shardproof::engines;

namespace {

ContributionSizes sizes(std::vector<ContributionSizes::Part> parts) {
  return {.hook_failed = false, .parts = std::move(parts)};
}

std::string objection_to(const std::vector<ContributionSizes>& by_rank, ExtensionForm form = ExtensionForm::minimal) {
  const std::vector<int> members{4, 5, 7};
  return objection({"0.weight", form, 24}, std::span(members).first(by_rank.size()), by_rank);
}

}  // namespace

TEST_CASE("sizes survive their way to the other ranks") {
  std::vector<ContributionSizes> all{sizes({}),
                                     sizes({{DType::f32, 24}}),
                                     sizes({{DType::i8, 0}, {DType::bf16, 1LL << 40}}),
                                     {.hook_failed = true, .parts = {}}};
  all.push_back(sizes(std::vector<ContributionSizes::Part>(most_contributed_tensors, {DType::f16, 3})));
  for (const ContributionSizes& one : all) {
    const std::vector<std::int64_t> numbers = encoded(one);
    REQUIRE(numbers.size() == encoded_sizes);
    CHECK(decoded(numbers) == one);
  }
}

TEST_CASE("contributions that are alike on every rank can be gathered") {
  const ContributionSizes pair = sizes({{DType::f32, 24}, {DType::f32, 24}}),
                          scaled = sizes({{DType::i8, 24}, {DType::f32, 1}});
  for (const ExtensionForm form : {ExtensionForm::minimal, ExtensionForm::full})
    CHECK(objection_to({pair, pair, pair}, form).empty());
  CHECK(objection_to({scaled, scaled}).empty());
  CHECK(objection_to({scaled}).empty());
}

TEST_CASE("an objection names the parameter, and what which rank would contribute") {
  const ContributionSizes whole = sizes({{DType::f32, 24}}), part = sizes({{DType::f32, 16}}),
                          cast = sizes({{DType::bf16, 24}});
  CHECK(objection_to({whole, part, whole}) ==
        "parameter \"0.weight\": ranks would contribute different tensors to one all-gather (ranks 4, 7: 1 tensor of "
        "f32 x 24; rank 5: 1 tensor of f32 x 16)");
  CHECK(objection_to({whole, cast}) ==
        "parameter \"0.weight\": ranks would contribute different tensors to one all-gather (rank 4: 1 tensor of "
        "f32 x 24; rank 5: 1 tensor of bf16 x 24)");
  CHECK(objection_to({part, part}).empty());
  CHECK(objection_to({part, part}, ExtensionForm::full) ==
        "parameter \"0.weight\": in the full form each tensor must have as many elements as the padded shard: 24 "
        "(ranks 4, 5: 1 tensor of f32 x 16)");
  CHECK(objection_to({part}, ExtensionForm::full) ==
        "parameter \"0.weight\": in the full form each tensor must have as many elements as the padded shard: 24 "
        "(rank 4: 1 tensor of f32 x 16)");
  CHECK(objection_to({whole, {.hook_failed = true, .parts = {}}}) ==
        "parameter \"0.weight\": a pre hook has failed (rank 4: 1 tensor of f32 x 24; rank 5: failed)");
  CHECK(objection_to({sizes({}), sizes({})}) ==
        "parameter \"0.weight\": the pre hook contributes no tensor (ranks 4, 5: 0 tensors)");
  const ContributionSizes many =
      sizes(std::vector<ContributionSizes::Part>(most_contributed_tensors + 1, {DType::u8, 1}));
  CHECK(objection_to({decoded(encoded(many))})
            .starts_with("parameter \"0.weight\": the pre hook contributes more than 8 tensors (rank 4: 9 "));
}

// The agreements of ranks before they train: all ranks have the same model and the same values.
#include <shardproof.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "suites/checks/comparison.hpp"
#include "suites/checks/last_module.hpp"
#include "suites/checks/refusal.hpp"
#include "suites/checks/sum_over_ranks.hpp"
#include "suites/replicate/scenarios.hpp"

namespace shardproof::replicate {

using namespace suites;

namespace {

/// Returns what a text says about a rank: the part from the rank's name to the next rank.
std::string about(const std::string& text, int rank) {
  const std::string name = "rank " + std::to_string(rank);
  const std::size_t begin = std::min(text.find(name), text.size());
  return text.substr(begin, text.find("rank ", begin + name.size()) - begin);
}

bool has_any(const std::string& text, const std::vector<std::string>& words) {
  return std::ranges::any_of(words, [&](const std::string& word) { return text.find(word) != std::string::npos; });
}

// Engines spell shapes differently.
std::vector<std::string> spellings(std::int64_t rows, std::int64_t columns) {
  const std::string a = std::to_string(rows), b = std::to_string(columns);
  return {"[" + a + ", " + b + "]", "(" + a + ", " + b + ")", a + "x" + b, a + " x " + b};
}
const std::vector<std::string> spellings_of_bf16{"bf16", "bfloat16", "BFloat16"};
const std::vector<std::string> spellings_of_frozen{"frozen", "not trainable", "requires_grad=False",
                                                   "without gradient"};

}  // namespace

// The layers `fc1` and `fc4` are twins, which change places: only their names differ.
RANKED_TEST_CASE("replicate/model_differs", clauses("REP-12"), ranks(2, 3, 4), also_with_discarded_module(),
                 each("in", "count", "shape", "order", "twins", "trainability", "dtype"),
                 each("culprit", "first", "last"), needs_if("in", "trainability", Feature::module_groups),
                 needs_if("in", "dtype", ReplicateFeature::parameter_dtypes)) {
  const int world = rank.world().size();
  const bool is_first = rank.param("culprit") == "first";
  const int culprit = is_first ? 1 : world - 1;
  Scenario scenario = four_layers(4);
  std::vector<Module>& layers = scenario.model.root.children;
  layers[1].out_features = layers[2].in_features = 5;
  layers[0].bias = false;
  const std::string& what = rank.param("in");
  if (what == "twins") layers[3].bias = false;
  if (rank.index() == culprit) {
    if (what == "count") layers[3].bias = false;
    if (what == "shape") layers[1].out_features = layers[2].in_features = 6;
    if (what == "order")
      layers[0].out_features = layers[1].in_features = 5, layers[1].out_features = layers[2].in_features = 4;
    if (what == "twins") std::swap(layers[0].name, layers[3].name);
    if (what == "trainability") layers[0].frozen = true;  // only the first parameter differs
    if (what == "dtype") replicate_plan(scenario.plan).parameter_dtypes["fc1"] = DType::bf16;
  }
  check_refused(rank, scenario, "create", {"rank 0", "rank " + std::to_string(culprit)});
  const std::optional<player::SubjectError> refused = refusal(rank, scenario);
  REQUIRE(refused);
  CAPTURE(refused->reason());
  const std::string first = about(refused->reason(), 0), other = about(refused->reason(), culprit);
  if (what == "count") CHECK((has_any(first, {"7"}) && has_any(other, {"6"})));
  if (what == "shape") CHECK((has_any(first, spellings(5, 4)) && has_any(other, spellings(6, 4))));
  if (what == "order") CHECK((has_any(first, spellings(4, 4)) && has_any(other, spellings(5, 4))));
  if (what == "twins") CHECK((has_any(first, {"fc1"}) && has_any(other, {"fc4"})));
  if (what == "dtype") CHECK((!has_any(first, spellings_of_bf16) && has_any(other, spellings_of_bf16)));
  if (what == "trainability") CHECK((!has_any(first, spellings_of_frozen) && has_any(other, spellings_of_frozen)));
}

// Each rank comes with its own values.
RANKED_TEST_CASE("replicate/starts_from_rank_0", clauses("REP-13"), ranks(2, 3, 4), also_with_discarded_module()) {
  Scenario scenario = exact_net(true, gradients_only());
  const int usual = scenario.model.init_divisor;
  scenario.model.init_divisor = rank.index() == 0 ? usual : 2 * usual;
  const Run run = play_accepted(rank, scenario);
  const Run expected = play_accepted(rank, exact_net(true, gradients_only()));
  REQUIRE_FALSE(run.captures().empty());
  std::int64_t differs_from_own = 0;
  for (std::size_t i = 0; i < run.captures().size(); ++i) {
    for (std::size_t p = 0; p < run.captures()[i].parameters.size(); ++p) {
      const CapturedParameter &mine = run.captures()[i].parameters[p], &same = expected.captures()[i].parameters[p];
      CAPTURE(i, mine.name);
      CHECK(first_difference(mine.shard, same.shard) == "");
      CHECK(first_difference(mine.gradient, same.gradient) == "");
      const Tensor own = initial_value(scenario.model, p, 0, mine.shape);
      if (mine.shard != own) ++differs_from_own;
    }
  }
  CHECK(sum_over_ranks(rank, differs_from_own) > 0);
}

}  // namespace shardproof::replicate

#include "suites/checks/comparison.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

#include "fixtures/oracles/difference.hpp"
#include "harness/subject/subject.hpp"
#include "harness/tensor/kernels.hpp"
#include "suites/checks/clauses.hpp"
#include "suites/checks/kind.hpp"
#include "suites/checks/soundness.hpp"

namespace shardproof::suites {

Tensor part(const Tensor& whole, const CapturedParameter& held) {
  if (held.dim == flattened) return whole.flatten().narrow(held.start, held.shard.numel());
  if (held.shape.empty()) return whole;
  const auto dim = static_cast<std::size_t>(held.dim);
  const Shape& shape = held.shape;
  std::int64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < dim; ++d) outer *= shape[d];
  for (std::size_t d = dim + 1; d < shape.size(); ++d) inner *= shape[d];
  Tensor mine = Tensor::host(whole.dtype(), held.shard.shape());
  const std::int64_t length = held.shard.shape()[dim] * inner;
  const std::size_t bytes = size_of(whole.dtype());
  for (std::int64_t o = 0; o < outer && length > 0; ++o) {
    const auto from = whole.flatten().narrow((o * shape[dim] + held.start) * inner, length).values<std::byte>();
    std::ranges::copy(from, mine.values<std::byte>().begin() + o * length * static_cast<std::int64_t>(bytes));
  }
  return mine;
}

Tensor in_dtype(DType dtype, const Tensor& values) {
  if (!values.defined() || values.dtype() == dtype) return values;
  const Tensor result = Tensor::host(dtype, values.shape());
  cpu_kernels().copy(nullptr, result, values);
  return result;
}

namespace {

DType kept_dtype(const Scenario& scenario, const std::string& parameter) {
  return scenario.plan.engine.get()->dtype_of(parameter);
}

// Requires that the held parameter is a part of the expected one, so that later comparisons are valid.
void require_part_of(const oracles::NamedValues& expected, const CapturedParameter& held) {
  REQUIRE(held.name == expected.name);
  REQUIRE(held.shape == expected.shape);
  REQUIRE(held.shard.defined());
  if (held.dim == flattened) {
    REQUIRE(held.shard.shape().size() == 1);
    REQUIRE(held.start >= 0);
    REQUIRE(held.start + held.shard.numel() <= numel(held.shape));
    return;
  }
  REQUIRE(held.shard.shape().size() == held.shape.size());
  if (held.shape.empty()) return;
  REQUIRE(held.dim >= 0);
  REQUIRE(static_cast<std::size_t>(held.dim) < held.shape.size());
  const auto dim = static_cast<std::size_t>(held.dim);
  REQUIRE(held.start >= 0);
  REQUIRE(held.start + held.shard.shape()[dim] <= held.shape[dim]);
  Shape rest = held.shard.shape();
  rest[dim] = held.shape[dim];
  REQUIRE(rest == held.shape);
}

int holders_of(int world, const Scenario& scenario, const std::string& parameter) {
  return scenario.plan.engine.get()->reduces(parameter)
             ? kind_of(scenario.plan).holders(scenario.plan, parameter, world)
             : world;
}

// Whether an element of the whole is in the part, by its place in row-major order.
bool holds(const CapturedParameter& held, std::int64_t element) {
  if (held.dim == flattened) return element >= held.start && element < held.start + held.shard.numel();
  if (held.shape.empty()) return true;
  const auto dim = static_cast<std::size_t>(held.dim);
  for (std::size_t d = dim + 1; d < held.shape.size(); ++d) element /= held.shape[d];
  const std::int64_t at = element % held.shape[dim];
  return at >= held.start && at < held.start + held.shard.shape()[dim];
}

// Checks that each element of every parameter is held by the number of ranks that the plan says. One call checks all
// parameters, so that the ranks communicate once.
void check_dealt(Rank& rank, const Scenario& scenario, const std::vector<CapturedParameter>& parameters) {
  std::vector<std::int64_t> mine;
  for (const CapturedParameter& held : parameters) {
    for (std::int64_t i = 0; i < numel(held.shape); ++i) mine.push_back(holds(held, i) ? 1 : 0);
  }
  const Tensor all = rank.world().all_reduce(Tensor::of<std::int64_t>({std::ssize(mine)}, mine));
  auto counts = all.values<std::int64_t>();
  for (const CapturedParameter& held : parameters) {
    INFO("parameter \"" << held.name << "\": number of ranks that hold each element");
    const auto elements = static_cast<std::size_t>(numel(held.shape));
    const std::vector<std::int64_t> own(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(elements));
    CHECK(own == std::vector<std::int64_t>(elements, holders_of(rank.world().size(), scenario, held.name)));
    counts = counts.subspan(elements);
  }
}

// The initial values of a held parameter, before any step.
CapturedParameter at_first(const Scenario& scenario, std::size_t parameter, const CapturedParameter& held) {
  const auto initial = [&](std::size_t component) {
    const Tensor whole = initial_value(scenario.model, parameter, component, held.shape);
    return part(in_dtype(kept_dtype(scenario, held.name), whole), held);
  };
  return {.name = held.name, .shard = initial(0), .second = held.second.defined() ? initial(1) : Tensor{}};
}

// Collects facts about each parameter at a capture: whether a part has moved, whether the two tensors of a pair differ,
// and whether all values are right. The facts are summed over all ranks, because a rank may hold no element of a
// parameter.
class ParameterNotes {
 public:
  explicit ParameterNotes(std::size_t parameters)
      : found_(Tensor::host(DType::i64, {static_cast<std::int64_t>(parameters), 4})) {}

  void note(std::size_t parameter, const CapturedParameter& before, const CapturedParameter& now, bool is_right) const {
    const auto found = found_.row(static_cast<std::int64_t>(parameter)).values<std::int64_t>();
    found[0] = before.shard == now.shard ? 0 : 1;
    found[1] = before.second == now.second ? 0 : 1;
    found[2] = now.second == now.shard ? 0 : 1;
    found[3] = is_right ? 0 : 1;
  }

  struct Answers {
    std::int64_t moves = 0;  ///< the number of parameters that have moved, summed over ranks
    bool right = true;  ///< all values are right on every rank
  };
  Answers check(Rank& rank, const std::vector<CapturedParameter>& now, Moves moves) const {
    const Tensor ranks = rank.world().all_reduce(found_);
    Answers answers;
    for (std::size_t p = 0; p < now.size(); ++p) {
      INFO("parameter \"" << now[p].name << "\", on how many ranks");
      const auto found = ranks.row(static_cast<std::int64_t>(p)).values<std::int64_t>();
      const std::int64_t moved = found[0], second_moved = found[1], tensors_differ = found[2], wrong = found[3];
      const bool is_pair = now[p].second.defined();
      if (moves == Moves::every_parameter) {
        CHECK(moved > 0);
        if (is_pair) CHECK(second_moved > 0);
      }
      if (is_pair) CHECK(tensors_differ > 0);
      answers.moves += moved;
      answers.right = answers.right && wrong == 0;
    }
    return answers;
  }

 private:
  Tensor found_;
};

// `what` names the tensor of the parameter, which a reader cannot recognize by its values.
bool check_close(const char* what, const Tensor& actual, const Tensor& expected, double tolerance, Zeros zeros) {
  INFO("its " << what << ", compared with one process");
  CHECK(actual.defined());
  if (!actual.defined()) return false;
  REQUIRE(actual.shape() == expected.shape());
  const bool differs_in_zeros = zeros == Zeros::are_equal && actual.dtype() == expected.dtype() && actual != expected &&
                                oracles::largest_difference(actual, expected) == 0;
  if (differs_in_zeros) return true;
  if (tolerance == 0) {
    CHECK(actual == expected);
    return actual == expected;
  }
  const double difference = oracles::largest_difference(actual, expected);
  CHECK(difference <= tolerance);
  return difference <= tolerance;
}

bool check_second(const CapturedParameter& held, const Tensor& expected, const Tolerance& tolerance) {
  REQUIRE(held.second.defined() == expected.defined());
  if (!expected.defined()) return true;
  REQUIRE(held.second.shape() == held.shard.shape());
  return check_close("second tensor", held.second, part(expected, held), tolerance.parameter, tolerance.zeros);
}

bool check_gradient(const CapturedParameter& held, const Tensor& expected, const Tolerance& tolerance) {
  if (!expected.defined()) {
    INFO("its gradient, although one process computes no gradient");
    CHECK_FALSE(held.gradient.defined());
    return !held.gradient.defined();
  }
  return held.shard.numel() == 0 ||
         check_close("gradient", held.gradient, part(expected, held), tolerance.gradient, tolerance.zeros);
}

// Checks the sums of the first `captures` captures.
void require_exact_sums(const std::vector<oracles::SerialIteration>& expected, std::size_t captures) {
  REQUIRE(captures > 0);
  REQUIRE(expected.size() >= captures);
  INFO(
      "the case compares bits, and a library may round the last bit differently on another processor. Choose smaller "
      "integers, a rate that is a power of two, or fewer iterations; or compare with a tolerance");
  INFO(expected[captures - 1].order_shows);
  REQUIRE(expected[captures - 1].order_shows.empty());
}

double largest_difference(const std::vector<oracles::NamedValues>& all, const std::vector<oracles::NamedValues>& others,
                          int world) {
  double largest = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (int rank = 0; all[i].defined() && rank < world; ++rank) {
      largest = std::max(largest, oracles::largest_difference(all[i].tensor(rank), others.at(i).tensor(rank)));
    }
  }
  return largest;
}

// A tolerance allows for a kernel's choices: orders of sums, fused products, roots and exponentials. The serial model
// measures their effect: its results in single and in double precision differ only by rounding. This difference must be
// far below the tolerance. `expected` has the results of this arithmetic.
void require_room(Rank& rank, const Scenario& scenario, const std::vector<oracles::SerialIteration>& expected,
                  oracles::Arithmetic arithmetic, const Tolerance& tolerance) {
  if (rank.index() != 0) return;  // all ranks would compute the same
  constexpr double room = 8;
  const int world = rank.world().size();
  const bool in_single = arithmetic == oracles::Arithmetic::f32;
  const auto others =
      oracles::train_serially(scenario, world, in_single ? oracles::Arithmetic::f64 : oracles::Arithmetic::f32);
  double loss = 0, gradient = 0, parameter = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t r = 0; r < expected[i].losses.size(); ++r) {
      loss = std::max(loss, std::abs(expected[i].losses[r] - others[i].losses[r]));
    }
    gradient = std::max(gradient, largest_difference(expected[i].gradients, others[i].gradients, world));
    parameter = std::max(parameter, largest_difference(expected[i].parameters, others[i].parameters, world));
    parameter = std::max(parameter, largest_difference(expected[i].seconds, others[i].seconds, world));
  }
  INFO(
      "rounding alone almost exceeds the tolerance, and another processor's values may exceed it. Choose smaller "
      "values or fewer iterations");
  if (tolerance.loss > 0) CHECK(room * loss <= tolerance.loss);
  if (tolerance.gradient > 0) CHECK(room * gradient <= tolerance.gradient);
  if (tolerance.parameter > 0) CHECK(room * parameter <= tolerance.parameter);
}

}  // namespace

void require_exact_sums(const Scenario& scenario, int world) {
  const auto expected = oracles::train_serially(scenario, world, oracles::Arithmetic::f32);
  require_exact_sums(expected, expected.size());
  for (const oracles::SerialIteration& iteration : expected)
    CHECK(std::ranges::count(iteration.loss_errors, 0) == world);
}

bool mean_rounds(Rank& rank) { return !std::has_single_bit(static_cast<unsigned>(rank.world().size())); }

Tolerance exact_unless_mean_rounds(Rank& rank) { return mean_rounds(rank) ? exact_at_first : Tolerance{}; }

void check_training(Rank& rank, const Run& run, oracles::Arithmetic arithmetic, const Tolerance& given, Moves moves) {
  const auto judged = judging(rank, Finding::values);
  const auto expected = oracles::train_serially(run.scenario(), rank.world().size(), arithmetic);
  if (given.loss > 0 || given.gradient > 0 || given.parameter > 0)
    require_room(rank, run.scenario(), expected, arithmetic, given);
  check_training(rank, run, arithmetic, expected, given, moves);
}

void check_training(Rank& rank, const Run& run, oracles::Arithmetic arithmetic,
                    const std::vector<oracles::SerialIteration>& expected, const Tolerance& given, Moves moves) {
  const auto judged = judging(rank, Finding::values);
  const Scenario& scenario = run.scenario();
  REQUIRE_FALSE(expected.empty());
  REQUIRE(run.captures().size() == expected.size());
  const bool all_exact = given.loss == 0 || given.gradient == 0 || given.parameter == 0;
  if (all_exact || given.exact > 0) require_exact_sums(expected, all_exact ? expected.size() : given.exact);
  std::vector<CapturedParameter> before;  // the values at the capture before
  std::int64_t all_moves = 0, gradients = 0;
  bool right = true;
  for (std::size_t i = 0; i < expected.size() && right; ++i) {  // values after wrong values show nothing new
    const Capture& captured = run.captures()[i];
    INFO("capture " << i);
    const Tolerance tolerance = i < given.exact ? Tolerance{.zeros = given.zeros} : given;
    const double expected_loss = expected[i].losses[static_cast<std::size_t>(rank.index())];
    const double loss_difference = std::abs(captured.loss - expected_loss);
    const double loss_tolerance = tolerance.loss + expected[i].loss_errors[static_cast<std::size_t>(rank.index())];
    CHECK(loss_difference <= loss_tolerance);
    REQUIRE_FALSE(expected[i].parameters.empty());
    REQUIRE(captured.parameters.size() == expected[i].parameters.size());
    REQUIRE(expected[i].gradients.size() == expected[i].parameters.size());
    REQUIRE(expected[i].seconds.size() == expected[i].parameters.size());
    const ParameterNotes notes(captured.parameters.size());
    for (std::size_t p = 0; p < captured.parameters.size(); ++p) {
      const CapturedParameter& held = captured.parameters[p];
      INFO("parameter \"" << held.name << '"');
      require_part_of(expected[i].parameters[p], held);
      if (i > 0)
        REQUIRE((held.dim == before[p].dim && held.start == before[p].start &&
                 held.shard.shape() == before[p].shard.shape()));
      if (i == 0) before.push_back(at_first(scenario, p, held));
      const auto whole = [&](const std::vector<oracles::NamedValues>& values) {
        const Tensor computed = values[p].tensor(rank.index()),
                     kept = in_dtype(kept_dtype(scenario, held.name), computed);
        if (arithmetic == oracles::Arithmetic::f32 && computed.defined())
          REQUIRE(oracles::largest_difference(computed, kept) == 0);
        return kept;
      };
      bool is_right = loss_difference <= loss_tolerance;
      is_right &= check_close("shard", held.shard, part(whole(expected[i].parameters), held), tolerance.parameter,
                              tolerance.zeros);
      is_right &= check_second(held, whole(expected[i].seconds), tolerance);
      const Tensor gradient = whole(expected[i].gradients);
      if (gradient.defined()) ++gradients;
      is_right &= check_gradient(held, gradient, tolerance);
      notes.note(p, before[p], held, is_right);
    }
    if (i == 0) check_dealt(rank, scenario, captured.parameters);
    const ParameterNotes::Answers answers = notes.check(rank, captured.parameters, moves);
    all_moves += answers.moves;
    right = answers.right;
    before = captured.parameters;
  }
  CHECK(all_moves > 0);
  CHECK(gradients > 0);
}

void check_same_training(Rank& rank, const Run& run, const Run& other) {
  const auto judged = judging(rank, Finding::values);
  const auto expected = oracles::train_serially(run.scenario(), rank.world().size(), oracles::Arithmetic::f32);
  require_exact_sums(expected, expected.size());
  REQUIRE(run.captures().size() == expected.size());
  REQUIRE(run.captures().size() == other.captures().size());
  for (std::size_t i = 0; i < run.captures().size(); ++i) {
    const Capture &mine = run.captures()[i], &others = other.captures()[i];
    INFO("capture " << i);
    const double loss_difference = std::abs(mine.loss - others.loss);
    CHECK(loss_difference <= 2 * expected[i].loss_errors[static_cast<std::size_t>(rank.index())]);
    REQUIRE(mine.parameters.size() == others.parameters.size());
    for (std::size_t p = 0; p < mine.parameters.size(); ++p) {
      const CapturedParameter &held = mine.parameters[p], &same = others.parameters[p];
      INFO("parameter \"" << held.name << '"');
      CHECK(held.shard == same.shard);
      CHECK(held.second == same.second);
      CHECK(held.gradient == same.gradient);
    }
  }
}

void check_three_iterations(Rank& rank, const Run& run) {
  check_training(rank, run, oracles::Arithmetic::f32, exact_unless_mean_rounds(rank));
  check_sound(rank, run);
  for (const Iteration& iteration : steady_iterations(run)) check_nothing_is_left(rank, run, iteration.index());
}

}  // namespace shardproof::suites

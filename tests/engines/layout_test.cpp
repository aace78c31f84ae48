// The operands that a fully sharded engine gives to its collectives, and the places of its shards, at world sizes up to
// more ranks than rows. The tests read the operands and the memory under the engine, and compare them with expectations
// that are computed here, value by value.
#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cstring>
#include <optional>
#include <span>

#include "fixtures/engines/reference.hpp"
#include "fixtures/oracles/serial_model.hpp"
#include "harness/device/sim/sim_platform.hpp"
#include "harness/player/player.hpp"
#include "harness/scenario/formula.hpp"
#include "harness/scenario/plan/fully_shard.hpp"
#include "tests/engines/guarded_device.hpp"
#include "tests/engines/thread_ranks.hpp"
#include "tests/golden_tables/golden_tables.hpp"

using namespace shardproof;

namespace {

constexpr std::array worlds = {1, 2, 3, 5, 8, 16, 128};

struct Layer {
  std::int64_t in = 0, out = 0;
  bool bias = true;
};

/// Linear layers in a row: one parameter group each, or all in the root's.
struct Stack {
  std::vector<Layer> layers;
  bool one_group = false;
};

// Parameters [17, 257] [17]; few uneven rows, alone and together; [64, 297] [2, 64] [256, 2] [256]; [64, 312] [64] [64,
// 64] [512, 64].
const Stack stacks[] = {
    {.layers = {{257, 17}}},
    {.layers = {{5, 7}, {7, 3}, {3, 1}}},
    {.layers = {{5, 7}, {7, 3}, {3, 1}}, .one_group = true},
    {.layers = {{297, 64, false}, {64, 2, false}, {2, 256}}, .one_group = true},
    {.layers = {{312, 64}, {64, 64, false}, {64, 512, false}}},
};
const std::span all_stacks(stacks);

/// A whole parameter or gradient. All values here are integers, and exact in f32 however they are summed.
struct Whole {
  std::int64_t rows = 0, width = 1;
  std::vector<float> values;
  float at(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * width + column)];
  }
};

std::string layer_name(std::size_t index) { return "l" + std::to_string(index); }

Scenario training(const Stack& stack) {
  Scenario scenario;
  for (std::size_t i = 0; i < stack.layers.size(); ++i) {
    const Layer& layer = stack.layers[i];
    scenario.model.root.children.push_back({.name = layer_name(i),
                                            .kind = ModuleKind::linear,
                                            .in_features = layer.in,
                                            .out_features = layer.out,
                                            .bias = layer.bias});
    if (!stack.one_group) fully_shard_plan(scenario.plan).wrap.push_back({.modules = {layer_name(i)}});
  }
  fully_shard_plan(scenario.plan)
      .wrap.push_back({.modules = {""}, .reshard_after_forward = {ReshardAfterForward::Kind::yes}});
  scenario.model.loss = {.kind = LossKind::sum};
  scenario.model.init_divisor = scenario.script.input_divisor = 1;
  scenario.script.input = {1, stack.layers.front().in};
  scenario.script.segments = {
      {.iterations = 1,
       .body = {{ActionKind::forward}, {ActionKind::backward}, {ActionKind::step}, {ActionKind::capture}}}};
  return scenario;
}

std::vector<float> formula_values(std::uint32_t seed, std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::uint32_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(formula::small_integer(seed, i));
  return values;
}

/// In order of registration.
std::vector<Whole> initial_parameters(const Stack& stack) {
  std::vector<Whole> parameters;
  const auto add = [&](std::int64_t rows, std::int64_t width) {
    parameters.push_back(
        {rows, width, formula_values(static_cast<std::uint32_t>(1 + parameters.size()), rows * width)});
  };
  for (const Layer& layer : stack.layers) {
    add(layer.out, layer.in);
    if (layer.bias) add(layer.out, 1);
  }
  return parameters;
}

/// Gradients of the sum of all outputs for a rank's own row. Forward computes y = W x + b in each layer, and backward
/// the transpose.
std::vector<Whole> local_gradients(const Stack& stack, const std::vector<Whole>& parameters, int rank) {
  std::vector<std::vector<float>> inputs{
      formula_values(static_cast<std::uint32_t>(1000 + rank), stack.layers.front().in)};
  std::size_t next = 0;
  for (const Layer& layer : stack.layers) {
    const Whole& weight = parameters[next++];
    std::vector<float> output =
        layer.bias ? parameters[next++].values : std::vector<float>(static_cast<std::size_t>(layer.out));
    for (std::int64_t o = 0; o < layer.out; ++o) {
      for (std::int64_t i = 0; i < layer.in; ++i) {
        output[static_cast<std::size_t>(o)] += weight.at(o, i) * inputs.back()[static_cast<std::size_t>(i)];
      }
    }
    inputs.push_back(std::move(output));
  }

  std::vector<Whole> gradients(parameters.size());
  std::vector<float> above(inputs.back().size(), 1);
  for (std::size_t l = stack.layers.size(); l-- > 0;) {
    const Layer& layer = stack.layers[l];
    if (layer.bias) gradients[--next] = {layer.out, 1, above};
    const Whole& weight = parameters[--next];
    gradients[next] = {layer.out, layer.in, {}};
    std::vector<float> below(static_cast<std::size_t>(layer.in));
    for (std::int64_t o = 0; o < layer.out; ++o) {
      for (std::int64_t i = 0; i < layer.in; ++i) {
        gradients[next].values.push_back(above[static_cast<std::size_t>(o)] * inputs[l][static_cast<std::size_t>(i)] +
                                         0.0f);  // never -0
        below[static_cast<std::size_t>(i)] += above[static_cast<std::size_t>(o)] * weight.at(o, i);
      }
    }
    above = std::move(below);
  }
  return gradients;
}

/// The flat buffer of a group: for every rank its rows of every tensor, each filled up with zeros to as many rows as
/// rank 0 has.
std::vector<float> rank_major(const std::vector<Whole>& group, int world) {
  std::vector<float> flat;
  for (std::int64_t rank = 0; rank < world; ++rank) {
    for (const Whole& tensor : group) {
      const std::int64_t chunk = (tensor.rows + world - 1) / world;
      for (std::int64_t row = rank * chunk; row < (rank + 1) * chunk; ++row) {
        for (std::int64_t column = 0; column < tensor.width; ++column)
          flat.push_back(row < tensor.rows ? tensor.at(row, column) : 0);
      }
    }
  }
  return flat;
}

std::vector<std::vector<float>> flat_buffers(const Stack& stack, const std::vector<Whole>& tensors, int world) {
  if (stack.one_group) return {rank_major(tensors, world)};
  std::vector<std::vector<float>> buffers;
  auto next = tensors.begin();
  for (const Layer& layer : stack.layers) {
    const auto end = next + (layer.bias ? 2 : 1);
    buffers.push_back(rank_major({next, end}, world));
    next = end;
  }
  return buffers;
}

/// Compares the operands of one rank's collectives with what they should be. A group is known by the size of its flat
/// buffer.
class OperandWatch final : public CommunicatorWrapper {
 public:
  using Buffers = std::vector<std::vector<float>>;

  OperandWatch(Communicator& inner, const Buffers& parameters, const Buffers& gradients, Findings& findings)
      : CommunicatorWrapper(inner), parameters_(parameters), gradients_(gradients), findings_(findings) {}

  void run(Stream stream, const Collective& collective) override {
    const auto members = static_cast<std::size_t>(size()), mine = static_cast<std::size_t>(rank());
    switch (collective.kind) {
      case CollectiveKind::all_gather: {
        const std::vector<float>* expected = of_size(parameters_, collective.out);
        const auto part = static_cast<std::size_t>(collective.in.numel());
        if (expected == nullptr || part * members != expected->size()) return unknown(collective);
        if (collective.in.data() != collective.out.data() + mine * collective.in.bytes())
          find(collective, "its input is not in place");
        compare(collective, "input", collective.in, std::span(*expected).subspan(mine * part, part));
        inner_.run(stream, collective);
        compare(collective, "output", collective.out, *expected);
        ++all_gathers;
        return;
      }
      case CollectiveKind::reduce_scatter: {
        const std::vector<float>* expected = of_size(gradients_, collective.in);
        if (expected == nullptr || static_cast<std::size_t>(collective.out.numel()) * members != expected->size())
          return unknown(collective);
        compare(collective, "input", collective.in, *expected);
        inner_.run(stream, collective);
        ++reduce_scatters;
        return;
      }
      default: unknown(collective);
    }
  }

  std::size_t all_gathers = 0, reduce_scatters = 0;

 private:
  static const std::vector<float>* of_size(const Buffers& buffers, const Tensor& operand) {
    const auto found = std::ranges::find(buffers, static_cast<std::size_t>(operand.numel()), &std::vector<float>::size);
    return found == buffers.end() ? nullptr : &*found;
  }

  // Ranks may differ in what they ask for: nothing may be issued any more.
  void unknown(const Collective& collective) const {
    throw std::logic_error(fmt::format("rank {}: no group has {} of {} elements to {}", rank(),
                                       to_string(collective.kind), collective.in.numel(), collective.out.numel()));
  }

  void compare(const Collective& collective, std::string_view operand, const Tensor& actual,
               std::span<const float> expected) const {
    const std::span<const float> values = actual.values<float>();
    if (std::memcmp(values.data(), expected.data(), expected.size_bytes()) == 0)
      return;  // millions of elements, nearly always the same
    const auto [found, right] = std::ranges::mismatch(values, expected);
    if (found == values.end()) return;
    find(collective,
         fmt::format("element {} of its {} is {} instead of {}", found - values.begin(), operand, *found, *right));
  }

  void find(const Collective& collective, std::string_view what) const {
    findings_.texts.push_back(fmt::format("{} \"{}\": {}", to_string(collective.kind), collective.tag, what));
  }

  const Buffers& parameters_;
  const Buffers& gradients_;
  Findings& findings_;
};

/// The simulated device between guards, and its world under watch.
class WatchedPlatform final : public Platform {
 public:
  WatchedPlatform(Group& group, int rank, const OperandWatch::Buffers& parameters,
                  const OperandWatch::Buffers& gradients, const std::shared_ptr<Findings>& findings)
      : inner_({}, group, rank),
        device_(inner_.device(), findings),
        world_(inner_.world(), parameters, gradients, *findings) {}

  Device& device() override { return device_; }
  Communicator& world() override { return world_; }
  std::unique_ptr<StreamGate> gate() override { return inner_.gate(); }
  Recording take_recording() override { return inner_.take_recording(); }
  std::size_t live_bytes() const override { return inner_.live_bytes(); }
  const OperandWatch& watch() const { return world_; }

 private:
  device::SimPlatform inner_;
  GuardedDevice device_;
  OperandWatch world_;
};

struct Watched {
  std::optional<Run> run;
  std::size_t all_gathers = 0, reduce_scatters = 0;
  std::shared_ptr<Findings> findings = std::make_shared<Findings>();
};

std::vector<Watched> play_watched(const Stack& stack, int world) {
  const Scenario scenario = training(stack);
  const std::vector<Whole> parameters = initial_parameters(stack);
  const OperandWatch::Buffers gathered = flat_buffers(stack, parameters, world);
  std::vector<Watched> ranks(static_cast<std::size_t>(world));
  on_thread_ranks(world, [&](int rank, Group& group) {
    Watched& watched = ranks[static_cast<std::size_t>(rank)];
    const OperandWatch::Buffers reduced = flat_buffers(stack, local_gradients(stack, parameters, rank), world);
    WatchedPlatform platform(group, rank, gathered, reduced, watched.findings);
    engines::Reference subject;
    watched.run = player::play(scenario, subject, platform, rank);
    watched.all_gathers = platform.watch().all_gathers;
    watched.reduce_scatters = platform.watch().reduce_scatters;
  });
  return ranks;
}

/// Rows of every rank as PyTorch sharded them. Nothing if no record exists.
std::optional<std::vector<std::int64_t>> dealt_by_pytorch(std::int64_t rows, int world) {
  static const std::vector<oracles::golden::Chunks> recorded = oracles::golden::chunks();
  for (const oracles::golden::Chunks& chunks : recorded) {
    if (chunks.world == world && chunks.rows == rows) return chunks.shards;
  }
  return std::nullopt;
}

/// This rank's rows of a whole tensor, shard and all.
Tensor rows_of(const Tensor& whole, int world, int rank) {
  const std::int64_t rows = whole.shape()[0], chunk = (rows + world - 1) / world, start = std::min(rows, rank * chunk);
  return whole.narrow(start, std::min(chunk, rows - start));
}

template <class Check>
void for_every_run(std::span<const Stack> played, Check check) {
  for (std::size_t s = 0; s < played.size(); ++s) {
    for (const int world : worlds) {
      if (world > SHARDPROOF_LARGEST_WORLD) continue;
      CAPTURE(s, world);
      check(played[s], world, play_watched(played[s], world));
    }
  }
}

}  // namespace

TEST_CASE(
    "at any world size, gathered and reduced memory is rank-major with zeros in all padding, and no rank leaves its "
    "buffer",
    "[long]") {
  for_every_run(all_stacks, [](const Stack& stack, int world, const std::vector<Watched>& ranks) {
    const std::size_t groups = stack.one_group ? 1 : stack.layers.size(), issued = world > 1 ? groups : 0;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      CAPTURE(rank);
      for (const std::string& text : ranks[rank].findings->texts) FAIL_CHECK(text);
      CHECK(ranks[rank].findings->buffers > 0);
      CHECK(ranks[rank].all_gathers == 2 * issued);  // for forward and for backward
      CHECK(ranks[rank].reduce_scatters == issued);
    }
  });
}

TEST_CASE("at any world size, no memory is used before its time or after its release", "[long]") {
  for_every_run(all_stacks, [](const Stack& stack, int world, const std::vector<Watched>& ranks) {
    // A poisoned value, like any other wrong one, would differ from the serial model's.
    const oracles::SerialIteration expected =
        oracles::train_serially(training(stack), world, oracles::Arithmetic::f32).at(0);
    std::vector<Tensor> values, gradients;
    for (const oracles::NamedValues& parameter : expected.parameters) values.push_back(parameter.tensor());
    for (const oracles::NamedValues& gradient : expected.gradients) gradients.push_back(gradient.tensor());
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      CAPTURE(rank);
      const Run& run = *ranks[rank].run;
      for (const trace::Race& race : run.races()) FAIL_CHECK(trace::describe(race));
      REQUIRE(run.captures().size() == 1);
      CHECK(run.captures()[0].loss == expected.losses[rank]);
      const std::vector<CapturedParameter>& parameters = run.captures()[0].parameters;
      REQUIRE(parameters.size() == values.size());
      REQUIRE(parameters.size() == gradients.size());
      for (std::size_t p = 0; p < parameters.size(); ++p) {
        CAPTURE(p);
        CHECK(parameters[p].shard == rows_of(values[p], world, static_cast<int>(rank)));
        CHECK(parameters[p].gradient == rows_of(gradients[p], world, static_cast<int>(rank)));
      }
    }
  });
}

TEST_CASE("shards are the shards of PyTorch, and a rank with only padding has no shard") {
  std::size_t compared = 0, empty = 0;
  // The last stack has more elements than all others together, and no number of rows at which PyTorch was asked that
  // they lack.
  for_every_run(all_stacks.first(4), [&](const Stack& stack, int world, const std::vector<Watched>& ranks) {
    const std::vector<Whole> wholes = initial_parameters(stack);
    for (std::size_t p = 0; p < wholes.size(); ++p) {
      CAPTURE(p);
      const auto dealt = dealt_by_pytorch(wholes[p].rows, world);
      std::int64_t next = 0;
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        CAPTURE(rank);
        const CapturedParameter& held = ranks[rank].run->captures().at(0).parameters.at(p);
        Shape shape = held.shape;
        shape[0] = held.shard.shape()[0];
        CHECK(held.shard.shape() == shape);
        if (dealt) {
          CHECK(shape[0] == (*dealt)[rank]);
          ++compared;
        }
        if (shape[0] == 0) {
          CHECK(next == wholes[p].rows);
          ++empty;
        } else {
          CHECK(held.start == next);
        }
        next += shape[0];
      }
      CHECK(next == wholes[p].rows);
    }
  });
  CHECK(compared > 0);
  CHECK(empty > 0);
}

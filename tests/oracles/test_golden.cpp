#include <algorithm>
#include <cstring>
#include <random>
#include <set>
#include <string>

#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "harness/scenario/formula.hpp"
#include "tests/golden_tables/golden_tables.hpp"

using namespace shardproof;
using namespace shardproof::oracles;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// Those that golden::values reads.
std::vector<std::string> value_files() {
  std::vector<std::string> files;
  for (const std::string_view name : golden::names()) {
    if (!name.starts_with("e_fsdp1") && !name.starts_with("g_") && !name.starts_with("h_") && !name.starts_with("i_"))
      files.emplace_back(name);
  }
  return files;
}

std::vector<std::string> trace_files() {
  std::vector<std::string> files;
  for (const std::string_view name : golden::names()) {
    if (name.starts_with("h_")) files.emplace_back(name);
  }
  return files;
}

bool is_as_listed(const golden::ManifestEntry& entry, std::string_view content) {
  return content.size() == entry.bytes && golden::crc32(content) == entry.crc32;
}

/// Whether this manifest says the same as the right one, which is compared with the files elsewhere.
bool says_the_same(std::string_view manifest) {
  try {
    return golden::manifest_of(manifest) == golden::manifest();
  } catch (const std::invalid_argument&) {
    return false;
  }
}

/// Where to damage a file: its first and its last byte, and some between.
std::vector<std::size_t> positions(std::size_t bytes, std::mt19937& random) {
  std::vector<std::size_t> chosen{0, bytes - 1};
  while (chosen.size() < 64) chosen.push_back(random() % bytes);
  return chosen;
}

char flipped(char byte, int bit) { return static_cast<char>(static_cast<unsigned char>(byte) ^ (1u << bit)); }

std::size_t count(const trace::Structure& structure, std::string_view kind) {
  return static_cast<std::size_t>(std::ranges::count(structure.steps, kind, &trace::Step::kind));
}

/// Whether the i-th step of one kind is before the j-th of another.
bool before(const trace::Structure& structure, std::string_view kind_x, std::size_t i, std::string_view kind_y,
            std::size_t j) {
  const auto position = [&](std::string_view kind, std::size_t nth) {
    for (std::size_t at = 0; at < structure.steps.size(); ++at) {
      if (structure.steps[at].kind == kind && nth-- == 0) return at;
    }
    throw std::out_of_range("no such step");
  };
  return structure.before[position(kind_x, i) * structure.steps.size() + position(kind_y, j)];
}

}  // namespace

TEST_CASE("crc32 is zlib's") {
  CHECK(golden::crc32("") == 0);
  CHECK(golden::crc32("123456789") == 0xCBF43926u);
}

TEST_CASE("every golden file is as the manifest says") {
  std::vector<std::string_view> listed;
  const std::vector<golden::ManifestEntry> manifest = golden::manifest();
  for (const golden::ManifestEntry& entry : manifest) {
    INFO(entry.name);
    listed.push_back(entry.name);
    CHECK(is_as_listed(entry, golden::text(entry.name)));
  }
  CHECK(listed == golden::names());
  CHECK(listed.size() == 69);
}

TEST_CASE("one flipped bit in any golden file is noticed") {
  const std::uint32_t seed = Catch::getSeed();
  CAPTURE(seed);
  std::mt19937 random(seed);
  for (const golden::ManifestEntry& entry : golden::manifest()) {
    INFO(entry.name);
    std::string content(golden::text(entry.name));
    for (const std::size_t position : positions(content.size(), random)) {
      const int bit = static_cast<int>(random() % 8);
      CAPTURE(position, bit);
      const char right = content[position];
      content[position] = flipped(right, bit);
      CHECK_FALSE(is_as_listed(entry, content));
      content[position] = right;
    }
    CHECK(is_as_listed(entry, content));
  }
}

TEST_CASE("any flipped bit in the manifest itself is noticed", "[long]") {
  std::string content(golden::text("MANIFEST"));
  for (std::size_t position = 0; position < content.size(); ++position) {
    for (int bit = 0; bit < 8; ++bit) {
      CAPTURE(position, bit);
      const char right = content[position];
      content[position] = flipped(right, bit);
      CHECK_FALSE(says_the_same(content));
      content[position] = right;
    }
  }
  CHECK(says_the_same(content));
}

TEST_CASE("a manifest's line that is not in its one form is refused and quoted") {
  CHECK(golden::manifest_of("").empty());
  CHECK(golden::manifest_of("cbf43926       9 digits\n").size() == 1);
  for (const char* text :
       {"cbf43926       9 digits", "cbf43926 9 digits\n", "CBF43926       9 digits\n", "cbf4392       9 digits\n",
        "cbf43926       9\n", "\ncbf43926       9 digits\n", "0xbf4392       9 digits\n"}) {
    INFO(text);
    CHECK_THROWS_AS(golden::manifest_of(text), std::invalid_argument);
  }
  CHECK_THROWS_MATCHES(golden::manifest_of("cbf43926       9 digits\nwrong\n"), std::invalid_argument,
                       MessageMatches(ContainsSubstring("\"wrong\"")));
}

TEST_CASE("an unknown golden file is an error that lists the known ones") {
  CHECK_THROWS_MATCHES(golden::text("exact_W6"), std::out_of_range,
                       MessageMatches(ContainsSubstring("exact_W6") && ContainsSubstring("exact_W5")));
  CHECK_THROWS_AS(golden::values("h_fsdp2_reshard_True_W2"), std::invalid_argument);
  CHECK_THROWS_AS(golden::structure("exact_W1"), std::out_of_range);
  CHECK_THROWS_AS(golden::values("g_fsdp2_dim0_chunks"), std::invalid_argument);
  CHECK_THROWS_AS(golden::structure("h_fsdp2_reshard_True_W2", "post_optim_event"), std::out_of_range);
}

TEST_CASE("values are read whole: their own checksums and sums hold") {
  for (const std::string& name : value_files()) {
    INFO(name);
    const golden::Values run = golden::values(name);
    const std::size_t iterations = name.starts_with("a_") || name.starts_with("b_") ? 5
                                   : !name.starts_with("d_")                        ? 3
                                   : run.unreduced                                  ? 1
                                                                                    : 2;
    CHECK(run.iterations.size() == iterations);
    std::size_t with_bits = 0;
    for (const golden::Iteration& iteration : run.iterations) {
      REQUIRE(iteration.losses.size() == static_cast<std::size_t>(run.world));
      if (iteration.parameters.empty()) continue;
      ++with_bits;
      std::string gradients, after;
      double gradients_sum = 0, after_sum = 0;
      for (std::size_t j = 0; j < run.parameters.size(); ++j) {
        const golden::Parameter& parameter = iteration.parameters[j];
        CHECK(parameter.name == run.parameters[j].name);
        CHECK(parameter.gradient.shape() == run.parameters[j].shape);
        gradients.append(reinterpret_cast<const char*>(parameter.gradient.data()), parameter.gradient.bytes());
        after.append(reinterpret_cast<const char*>(parameter.after.data()), parameter.after.bytes());
        for (const double value : parameter.gradient.to_doubles()) gradients_sum += std::abs(value);
        for (const double value : parameter.after.to_doubles()) after_sum += std::abs(value);
      }
      CHECK(golden::crc32(gradients) == iteration.gradients_crc32);
      CHECK(golden::crc32(after) == iteration.parameters_crc32);
      CHECK(std::abs(gradients_sum - iteration.gradients_abs_sum) <= 1e-9 * iteration.gradients_abs_sum);
      CHECK(std::abs(after_sum - iteration.parameters_abs_sum) <= 1e-9 * iteration.parameters_abs_sum);
    }
    const std::size_t expected = name.find("reshard") != std::string::npos ? 0
                                 : name.starts_with("a_")                  ? 3
                                                                           : run.iterations.size();
    CHECK(with_bits == expected);
  }
}

TEST_CASE("each rank keeps its own unreduced gradients, and those of rank 0 are the same in any world") {
  std::size_t files = 0;
  for (const std::string& name : value_files()) {
    INFO(name);
    const golden::Values run = golden::values(name);
    CHECK(run.unreduced.has_value() == name.starts_with("d_ddp_nosync"));
    if (!run.unreduced) continue;
    ++files;
    const golden::Unreduced alone = golden::values("d_ddp_nosync_W1").unreduced.value();
    CHECK(run.unreduced->of_first_rank == alone.of_first_rank);
    CHECK(run.unreduced->losses.at(0) == alone.losses.at(0));
    REQUIRE(run.unreduced->gradients_crc32.size() == static_cast<std::size_t>(run.world));
    CHECK(std::set(run.unreduced->gradients_crc32.begin(), run.unreduced->gradients_crc32.end()).size() ==
          static_cast<std::size_t>(run.world));
    std::string bytes;
    for (const Tensor& gradient : run.unreduced->of_first_rank)
      bytes.append(reinterpret_cast<const char*>(gradient.data()), gradient.bytes());
    CHECK(golden::crc32(bytes) == run.unreduced->gradients_crc32.at(0));
  }
  CHECK(files == 3);
}

TEST_CASE("buckets have each parameter once, and as many elements as their parameters") {
  const std::vector<golden::Buckets> recorded = golden::buckets();
  CHECK(recorded.size() == 7);
  for (const golden::Buckets& buckets : recorded) {
    CAPTURE(buckets.width, buckets.cap_bytes);
    for (const auto* all : {&buckets.first, &buckets.later}) {
      std::set<std::string> names;
      for (const golden::Buckets::Bucket& bucket : *all) {
        std::int64_t elements = 0;
        for (const std::string& name : bucket.parameters) {
          names.insert(name);
          elements += name.ends_with("bias") ? buckets.width : buckets.width * buckets.width;
        }
        CHECK(bucket.elements == elements);
      }
      CHECK(names.size() == 8);
    }
  }
}

TEST_CASE("shards follow the chunk rule: rows are cut into pieces of the same rounded-up size") {
  for (const std::string& name : value_files()) {
    INFO(name);
    const golden::Values run = golden::values(name);
    if (name.starts_with("d_") || name.starts_with("e_") || name.starts_with("f_")) {
      CHECK(run.shard_rows.empty());  // no rows per shard, or no record of them
      continue;
    }
    REQUIRE(run.shard_rows.size() == static_cast<std::size_t>(run.world));
    for (std::size_t j = 0; j < run.parameters.size(); ++j) {
      const std::int64_t rows = run.parameters[j].shape[0], chunk = (rows + run.world - 1) / run.world;
      for (std::int64_t rank = 0; rank < run.world; ++rank) {
        CHECK(run.shard_rows[static_cast<std::size_t>(rank)][j] ==
              std::clamp<std::int64_t>(rows - rank * chunk, 0, chunk));
      }
    }
  }
}

TEST_CASE("whether layers are resharded after forward changes no bit") {
  const golden::Values given = golden::values("a_mlp_sgd_W2");
  for (const char* name : {"a_mlp_sgd_W2_reshardTrue", "a_mlp_sgd_W2_reshardFalse"}) {
    INFO(name);
    const golden::Values run = golden::values(name);
    REQUIRE(run.iterations.size() == given.iterations.size());
    for (std::size_t i = 0; i < run.iterations.size(); ++i) {
      CHECK(run.iterations[i].losses == given.iterations[i].losses);
      CHECK(run.iterations[i].gradients_crc32 == given.iterations[i].gradients_crc32);
      CHECK(run.iterations[i].parameters_crc32 == given.iterations[i].parameters_crc32);
    }
  }
}

TEST_CASE("the model of tokens: its inputs are ids, and its parameters are listed whole") {
  for (const int world : {1, 2}) {
    const golden::Values run = golden::values("f_tiny_W" + std::to_string(world));
    CHECK(run.world == world);
    CHECK(run.optimizer == "sgd_0.1");
    CHECK(run.vocabulary == 16);
    CHECK(run.input == Shape{2, 4});
    REQUIRE(run.parameters.size() == 14);
    CHECK(run.parameters[0].name == "pos");
    CHECK(run.parameters[0].shape == Shape{4, 8});
    CHECK(run.parameters[1].name == "emb.weight");
    CHECK(run.parameters[1].shape == Shape{run.vocabulary, 8});
    CHECK(run.parameters[13].name == "down.bias");
  }
  // Ranks have batches of their own, and rank 0's is the same in any world.
  const golden::Values two = golden::values("f_tiny_W2");
  CHECK(two.iterations[0].losses[0] == golden::values("f_tiny_W1").iterations[0].losses[0]);
  CHECK(two.iterations[0].losses[0] != two.iterations[0].losses[1]);
}

TEST_CASE("chunks of rows follow the rule, at every world and size that was recorded") {
  const std::vector<golden::Chunks> recorded = golden::chunks();
  REQUIRE(recorded.size() == 184);
  std::set<std::pair<int, std::int64_t>> distinct;
  for (const golden::Chunks& dealt : recorded) {
    CAPTURE(dealt.world, dealt.rows);
    distinct.insert({dealt.world, dealt.rows});
    const std::int64_t chunk = (dealt.rows + dealt.world - 1) / dealt.world;
    REQUIRE(dealt.shards.size() == static_cast<std::size_t>(dealt.world));
    for (std::int64_t rank = 0; rank < dealt.world; ++rank) {
      CHECK(dealt.shards[static_cast<std::size_t>(rank)] ==
            std::clamp<std::int64_t>(dealt.rows - rank * chunk, 0, chunk));
    }
    CHECK(dealt.padded_rows == chunk * dealt.world);
  }
  CHECK(distinct.size() == recorded.size());
}

TEST_CASE("compiled backwards: all-reduces and waits have each element of four layers once") {
  const std::vector<golden::CompiledBackward> recorded = golden::compiled_backwards();
  REQUIRE(recorded.size() == 2);
  CHECK(recorded[0].fusion == "concat");
  CHECK(recorded[1].fusion == "coalesce");
  for (const golden::CompiledBackward& backward : recorded) {
    INFO(backward.fusion);
    std::int64_t reduced = 0, awaited = 0, starts = 0;
    for (const golden::CompiledBackward::Call& call : backward.calls) {
      const bool is_wait = call.kind == "wait";
      starts += is_wait ? 0 : 1;
      CHECK((call.operands.size() > 1) == (call.kind == "all_reduce_coalesced"));
      for (const Shape& operand : call.operands) (is_wait ? awaited : reduced) += numel(operand);
    }
    CHECK(starts == backward.buckets);
    CHECK(reduced == 4 * (backward.width * backward.width + backward.width));
    CHECK(awaited == reduced);
  }
}

TEST_CASE("flat layouts: parts cover each parameter once, and values are those of the formula or padding") {
  const std::vector<golden::FlatLayout> recorded = golden::flat_layouts();
  REQUIRE(recorded.size() == 48);
  for (const golden::FlatLayout& layout : recorded) {
    CAPTURE(layout.world, layout.use_orig_params, layout.module);
    CHECK(layout.shard == (layout.unsharded + layout.world - 1) / layout.world);
    for (std::size_t parameter = 0; parameter < layout.elements.size(); ++parameter) {
      const Tensor whole = formula::tensor(static_cast<std::uint32_t>(1 + parameter), {layout.elements[parameter]}, 8);
      std::int64_t next = 0;
      for (const golden::FlatLayout::Rank& rank : layout.ranks) {
        REQUIRE(rank.parts.size() == layout.elements.size());
        CHECK(rank.values.size() == static_cast<std::size_t>(layout.shard));
        const auto& part = rank.parts[parameter];
        if (!part) continue;
        CHECK(part->in_parameter == next);
        next += part->elements;
        for (std::int64_t i = 0; i < part->elements; ++i) {
          CHECK(rank.values.at(static_cast<std::size_t>(part->in_shard + i)) ==
                whole.values<float>()[static_cast<std::size_t>(part->in_parameter + i)]);
        }
      }
      CHECK(next == layout.elements[parameter]);
    }
  }
}

TEST_CASE("the trace of resharding layers: what is called, and what orders it") {
  const trace::Structure trace = golden::structure("h_fsdp2_reshard_True_W2");
  CHECK(count(trace, "all_gather") == 2 * 6);
  CHECK(count(trace, "reduce_scatter") == 2 * 3);
  CHECK(count(trace, "forward") == 2 * 6);
  CHECK(count(trace, "backward") == 2 * 6);
  CHECK(trace.steps.size() == 42);

  const trace::Step& gather = trace.steps.front();
  CHECK(gather.kind == "all_gather");
  CHECK(gather.role == StreamRole::all_gather);
  CHECK(gather.in_count == 276);
  CHECK(gather.out_count == 552);
  CHECK(gather.dtype == DType::f32);
  CHECK(gather.op == ReduceOp::none);
  CHECK(gather.group == std::vector<int>{0, 1});
  CHECK(gather.label.empty());
  CHECK(gather.phase == "iter 0 forward");
  CHECK(trace.steps[1].label == "0.in_proj");
  CHECK(trace.steps[1].role == StreamRole::compute);
  const trace::Step& last = trace.steps.back();
  CHECK(last.kind == "reduce_scatter");
  CHECK(last.role == StreamRole::reduce);
  CHECK(last.op == ReduceOp::avg);
  CHECK(last.in_count == 552);
  CHECK(last.out_count == 276);
  CHECK(last.phase == "iter 1 backward");

  CHECK(before(trace, "all_gather", 0, "forward", 0));
  CHECK_FALSE(
      before(trace, "forward", 0, "all_gather", 1));  // the next group's parameters come in while a group computes
  CHECK(before(trace, "all_gather", 0, "all_gather", 1));
  CHECK(before(trace, "all_gather", 1, "forward", 2));
  CHECK(before(trace, "forward", 1, "all_gather", 3));  // block 2's copy-out comes after block 1's computation …
  CHECK_FALSE(before(trace, "forward", 5, "all_gather", 3));  // … but its regathering does not wait for its own
  CHECK(before(trace, "backward", 1, "reduce_scatter", 0));
  CHECK_FALSE(before(trace, "reduce_scatter", 0, "backward", 2));
  CHECK(before(trace, "reduce_scatter", 0, "reduce_scatter", 1));
  CHECK(before(trace, "reduce_scatter", 2, "all_gather", 6));  // the next iteration reads what the step wrote
}

TEST_CASE("a relation is irreflexive, transitive, and never against host order") {
  for (const std::string& name : trace_files()) {
    INFO(name);
    const trace::Structure trace = golden::structure(name, 0);
    const std::size_t n = trace.steps.size();
    REQUIRE(trace.before.size() == n * n);
    std::size_t wrong = 0;
    for (std::size_t x = 0; x < n; ++x) {
      for (std::size_t y = 0; y < n; ++y) {
        if (!trace.before[x * n + y]) continue;
        if (x >= y) ++wrong;
        for (std::size_t z = 0; z < n; ++z) wrong += trace.before[y * n + z] && !trace.before[x * n + z] ? 1 : 0;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("traces that are known to be alike are alike, and the others are not") {
  const auto same = [](const trace::Structure& a, const trace::Structure& b) {
    return a.steps == b.steps && a.before == b.before;
  };
  const trace::Structure resharded = golden::structure("h_fsdp2_reshard_True_W2");
  CHECK(same(golden::structure("h_fsdp2_reshard_None_W2"), resharded));
  CHECK(same(golden::structure("h_fsdp2_post_optim_W2"), resharded));
  CHECK_FALSE(same(golden::structure("h_fsdp2_reshard_False_W2"), resharded));

  const trace::Structure with_event = golden::structure("h_overlap_virtual_clock", "post_optim_event");
  const trace::Structure without = golden::structure("h_overlap_virtual_clock", "post_optim_stream");
  CHECK(with_event.steps == without.steps);
  CHECK(with_event.before != without.before);
  CHECK(with_event.steps[0].label == "sleep");
  CHECK(count(with_event, "optimizer") == 5);
  CHECK(std::ranges::find(with_event.steps, "optimizer", &trace::Step::kind)->phase == "iter 0 step");
  // Sleeping forward of iteration 1 is the third forward; its all-gather waits for it only without the event.
  CHECK(before(without, "forward", 2, "all_gather", 1));
  CHECK_FALSE(before(with_event, "forward", 2, "all_gather", 1));
  CHECK(before(with_event, "optimizer", 0, "all_gather", 1));
}

TEST_CASE("traces have the steps that they were recorded with, from the first to the last") {
  struct Recorded {
    std::string name;
    std::size_t all_gathers, reduce_scatters, all_reduces, layers;  ///< layers: linear ones, forward and backward
    std::string last_phase;
  };
  const std::vector<Recorded> recorded = {
      {"h_fsdp1_FULL_SHARD_plain_W2", 12, 6, 0, 24, "iter 1 backward"},
      {"h_fsdp1_FULL_SHARD_no_sync_W2", 18, 6, 0, 36, "iter 2 backward"},
      {"h_fsdp1_FULL_SHARD_detail_W2", 18, 6, 0, 24, "iter 1 backward"},
      {"h_fsdp1_SHARD_GRAD_OP_plain_W2", 6, 6, 0, 24, "iter 1 backward"},
      {"h_fsdp1_SHARD_GRAD_OP_no_sync_W2", 6, 6, 0, 36, "iter 2 backward"},
      {"h_fsdp1_NO_SHARD_plain_W2", 0, 0, 6, 24, "iter 1 backward"},
      {"h_fsdp1_NO_SHARD_no_sync_W2", 0, 0, 6, 36, "iter 2 backward"},
      {"h_fsdp1_HYBRID_SHARD_W4", 12, 6, 6, 24, "iter 1 backward"},
      {"h_fsdp2_accum_W2", 12, 3, 0, 24, "iter 1 backward"},
      {"h_fsdp2_explicit_prefetch_W2", 6, 3, 0, 12, "iter 0 backward"},
      {"h_fsdp2_hsdp_2x2", 12, 6, 6, 24, "iter 1 backward"},
      {"h_fsdp2_reshard_int2_W4", 12, 6, 0, 24, "iter 1 backward"},
      {"h_fsdp2_rootparam_reshard_None_W2", 14, 8, 0, 28, "iter 1 backward"},
      {"h_fsdp2_rootparam_reshard_True_W2", 16, 8, 0, 28, "iter 1 backward"},
  };
  for (const auto& [name, all_gathers, reduce_scatters, all_reduces, layers, last_phase] : recorded) {
    INFO(name);
    const trace::Structure trace = golden::structure(name, 0);
    CHECK(count(trace, "all_gather") == all_gathers);
    CHECK(count(trace, "reduce_scatter") == reduce_scatters);
    CHECK(count(trace, "all_reduce") == all_reduces);
    CHECK(count(trace, "forward") + count(trace, "backward") == layers);
    CHECK(trace.steps.size() == all_gathers + reduce_scatters + all_reduces + layers);
    CHECK(trace.steps.front().kind == (all_gathers > 0 ? "all_gather" : "forward"));
    CHECK(trace.steps.front().phase == "iter 0 forward");
    CHECK(trace.steps.back().kind == (all_reduces > 0 ? "all_reduce" : "reduce_scatter"));
    CHECK(trace.steps.back().role ==
          (all_reduces > 0 && reduce_scatters > 0 ? StreamRole::all_reduce : StreamRole::reduce));
    CHECK(trace.steps.back().phase == last_phase);
  }
}

TEST_CASE("a root with a direct parameter is gathered first and, unless configured otherwise, once per iteration") {
  const trace::Structure kept = golden::structure("h_fsdp2_rootparam_reshard_None_W2");
  CHECK(kept.steps.front().out_count == 72);
  CHECK(std::ranges::count(kept.steps, std::string("root"), &trace::Step::label) == 4);
  const auto of_root = [](const trace::Step& step) { return step.kind == "all_gather" && step.out_count == 72; };
  CHECK(std::ranges::count_if(kept.steps, of_root) == 2);
  CHECK(std::ranges::count_if(golden::structure("h_fsdp2_rootparam_reshard_True_W2").steps, of_root) == 4);
}

TEST_CASE("replicas of shards: every rank has two groups, one to shard in and one to reduce in") {
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const std::vector<int> sharded = rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
    const std::vector<int> replicated = rank % 2 == 0 ? std::vector<int>{0, 2} : std::vector<int>{1, 3};
    std::size_t collectives = 0;
    for (const trace::Step& step : golden::structure("h_fsdp2_hsdp_2x2", rank).steps) {
      if (step.kind == "forward" || step.kind == "backward") continue;
      ++collectives;
      CHECK(step.group == (step.kind == "all_reduce" ? replicated : sharded));
      if (step.kind == "all_reduce") {
        CHECK(step.in_count == 276);
        CHECK(step.op == ReduceOp::avg);
      }
    }
    CHECK(collectives == 24);
  }
}

TEST_CASE("resharding to two: all ranks gather in forward, halves in backward") {
  for (int rank = 0; rank < 4; ++rank) {
    CAPTURE(rank);
    const std::vector<int> all{0, 1, 2, 3}, half = rank < 2 ? std::vector<int>{0, 1} : std::vector<int>{2, 3};
    for (const trace::Step& step : golden::structure("h_fsdp2_reshard_int2_W4", rank).steps) {
      if (step.kind == "all_gather") CHECK(step.group == (step.phase.ends_with("forward") ? all : half));
      if (step.kind == "reduce_scatter") CHECK(step.group == all);
    }
  }
}

TEST_CASE("ranks' traces differ in their groups alone, where they differ") {
  for (const std::string& name : trace_files()) {
    INFO(name);
    const int world = name.ends_with("2x2") ? 4 : name.ends_with("_W1") ? 1 : name.ends_with("_W4") ? 4 : 2;
    const trace::Structure first = golden::structure(name, 0);
    for (int rank = 0; rank < world; ++rank) {
      trace::Structure other = golden::structure(name, rank);
      CHECK(other.before == first.before);
      REQUIRE(other.steps.size() == first.steps.size());
      for (std::size_t i = 0; i < other.steps.size(); ++i) other.steps[i].group = first.steps[i].group;
      CHECK(other.steps == first.steps);
    }
    CHECK_THROWS_AS(golden::structure(name, world), std::out_of_range);
    CHECK_THROWS_AS(golden::structure(name, -1), std::out_of_range);
  }
}

TEST_CASE("a request for a trace that a file lacks lists the traces that it has") {
  CHECK_THROWS_MATCHES(golden::structure("h_fsdp2_hsdp_2x2"), std::out_of_range,
                       MessageMatches(ContainsSubstring("h_fsdp2_hsdp_2x2") && ContainsSubstring("a trace per rank")));
  CHECK_THROWS_MATCHES(golden::structure("h_fsdp2_hsdp_2x2", 4), std::out_of_range,
                       MessageMatches(ContainsSubstring("rank 4") && ContainsSubstring("ranks 0 to 3")));
}

TEST_CASE("one rank computes and communicates nothing") {
  const trace::Structure trace = golden::structure("h_fsdp2_reshard_True_W1");
  CHECK(count(trace, "all_gather") + count(trace, "reduce_scatter") == 0);
  CHECK(trace.steps.size() == 24);
}

TEST_CASE("happens-before follows each kind of edge and nothing else") {
  const auto relation = [](const std::string& between) {
    const trace::Structure two =
        golden::structure_of_entries(R"([["compute_fwd","default","a"],)" + between + R"(["compute_fwd","ag","b"]])");
    return static_cast<bool>(two.before[1]);
  };
  CHECK_FALSE(relation(""));
  CHECK(relation(R"(["wait_stream","ag","default"],)"));
  CHECK_FALSE(relation(R"(["wait_stream","default","ag"],)"));
  CHECK(relation(R"(["record","default",0],["wait_event","ag",0],)"));
  CHECK_FALSE(relation(R"(["record","ag",0],["wait_event","ag",0],)"));
  CHECK_FALSE(relation(R"(["record","default",0],)"));
  CHECK(relation(R"(["record","default",0],["event_sync",0],)"));
  CHECK(relation(R"(["wait_stream","rs","default"],["record","rs",0],["wait_event","ag",0],)"));
  // An event means the work that was issued before it was recorded, and not later work on the stream.
  const trace::Structure late = golden::structure_of_entries(
      R"([["record","default",0],["compute_fwd","default","a"],["wait_event","ag",0],["compute_fwd","ag","b"]])");
  CHECK_FALSE(late.before[1]);
}

TEST_CASE("an invalid trace is refused with entry and reason") {
  CHECK_THROWS_MATCHES(golden::structure_of_entries(R"([["mark","x"],["sleep","default"]])"), std::invalid_argument,
                       MessageMatches(ContainsSubstring("entry 1") && ContainsSubstring("unknown entry \"sleep\"")));
  CHECK_THROWS_AS(golden::structure_of_entries(R"([["compute_fwd","side","a"]])"), std::invalid_argument);
  CHECK_THROWS_AS(golden::structure_of_entries(R"([["wait_event","ag",3]])"), std::invalid_argument);
  CHECK_THROWS_AS(golden::structure_of_entries(R"([["compute_fwd"]])"), std::invalid_argument);
}

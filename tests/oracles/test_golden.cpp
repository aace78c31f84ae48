#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "fixtures/oracles/golden.hpp"

using namespace shardproof;
using namespace shardproof::oracles;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

std::vector<std::string> value_files() {
  std::vector<std::string> files;
  for (const std::string_view name : golden::names()) {
    if (!name.starts_with("h_")) files.emplace_back(name);
  }
  return files;
}

std::size_t count(const trace::Structure& structure, std::string_view kind) {
  return static_cast<std::size_t>(std::ranges::count(structure.steps, kind, &trace::Step::kind));
}

/// Whether the i-th step of one kind is before the j-th of another.
bool before(const trace::Structure& structure, std::string_view kind_x, std::size_t i, std::string_view kind_y, std::size_t j) {
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

TEST_CASE("every golden file is as the manifest says, and one flipped bit is noticed") {
  std::set<std::string> listed;
  for (const golden::ManifestEntry& entry : golden::manifest()) {
    INFO(entry.name);
    listed.insert(entry.name);
    const std::string_view content = golden::text(entry.name);
    CHECK(content.size() == entry.bytes);
    CHECK(golden::crc32(content) == entry.crc32);
    std::string damaged(content);
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
    CHECK(golden::crc32(damaged) != entry.crc32);
  }
  const auto names = golden::names();
  CHECK(listed == std::set<std::string>(names.begin(), names.end()));
  CHECK(names.size() == 27);
}

TEST_CASE("an unknown golden file is an error that lists the known ones") {
  CHECK_THROWS_MATCHES(golden::text("exact_W6"), std::out_of_range,
                       MessageMatches(ContainsSubstring("exact_W6") && ContainsSubstring("exact_W5")));
  CHECK_THROWS_AS(golden::values("h_fsdp2_reshard_True_W2"), std::invalid_argument);
  CHECK_THROWS_AS(golden::structure("exact_W1"), std::out_of_range);
  CHECK_THROWS_AS(golden::structure("h_fsdp2_reshard_True_W2", "post_optim_event"), std::out_of_range);
}

TEST_CASE("values are read whole: their own checksums and sums hold") {
  for (const std::string& name : value_files()) {
    INFO(name);
    const golden::Values run = golden::values(name);
    CHECK(run.iterations.size() == (name.starts_with("exact") ? 3 : 5));
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
    CHECK(with_bits == (name.starts_with("a_") ? 3 : run.iterations.size()));
  }
}

TEST_CASE("shards follow the chunk rule: rows are cut into pieces of the same rounded-up size") {
  for (const std::string& name : value_files()) {
    INFO(name);
    const golden::Values run = golden::values(name);
    REQUIRE(run.shard_rows.size() == static_cast<std::size_t>(run.world));
    for (std::size_t j = 0; j < run.parameters.size(); ++j) {
      const std::int64_t rows = run.parameters[j].shape[0], chunk = (rows + run.world - 1) / run.world;
      for (std::int64_t rank = 0; rank < run.world; ++rank) {
        CHECK(run.shard_rows[static_cast<std::size_t>(rank)][j] == std::clamp<std::int64_t>(rows - rank * chunk, 0, chunk));
      }
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
  CHECK_FALSE(before(trace, "forward", 0, "all_gather", 1));  // the next group's parameters come in while a group computes
  CHECK(before(trace, "all_gather", 0, "all_gather", 1));
  CHECK(before(trace, "all_gather", 1, "forward", 2));
  CHECK(before(trace, "forward", 1, "all_gather", 3));       // block 2's copy-out comes after block 1's computation …
  CHECK_FALSE(before(trace, "forward", 5, "all_gather", 3)); // … but its regathering does not wait for its own
  CHECK(before(trace, "backward", 1, "reduce_scatter", 0));
  CHECK_FALSE(before(trace, "reduce_scatter", 0, "backward", 2));
  CHECK(before(trace, "reduce_scatter", 0, "reduce_scatter", 1));
  CHECK(before(trace, "reduce_scatter", 2, "all_gather", 6));  // the next iteration reads what the step wrote
}

TEST_CASE("a relation is irreflexive, transitive, and never against host order") {
  for (const std::string_view name : golden::names()) {
    if (!name.starts_with("h_")) continue;
    INFO(name);
    const trace::Structure trace = golden::structure(name);
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
  const auto same = [](const trace::Structure& a, const trace::Structure& b) { return a.steps == b.steps && a.before == b.before; };
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
  // An event stands for what was issued before it was recorded, not for what came later on the stream.
  const trace::Structure late = golden::structure_of_entries(
      R"([["record","default",0],["compute_fwd","default","a"],["wait_event","ag",0],["compute_fwd","ag","b"]])");
  CHECK_FALSE(late.before[1]);
}

TEST_CASE("a trace that is not one is refused with entry and reason") {
  CHECK_THROWS_MATCHES(golden::structure_of_entries(R"([["mark","x"],["sleep","default"]])"), std::invalid_argument,
                       MessageMatches(ContainsSubstring("entry 1") && ContainsSubstring("unknown entry \"sleep\"")));
  CHECK_THROWS_AS(golden::structure_of_entries(R"([["compute_fwd","side","a"]])"), std::invalid_argument);
  CHECK_THROWS_AS(golden::structure_of_entries(R"([["wait_event","ag",3]])"), std::invalid_argument);
  CHECK_THROWS_AS(golden::structure_of_entries(R"([["compute_fwd"]])"), std::invalid_argument);
}

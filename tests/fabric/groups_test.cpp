// Groups within groups, and what their calls leave to each other.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <random>
#include <set>

#include <fmt/format.h>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "tests/fabric/message_worlds.hpp"

using namespace shardproof;
using namespace shardproof::testing;

namespace {

std::vector<int> members_of(const Group& group) { return {group.members().begin(), group.members().end()}; }

std::string listed(const std::vector<int>& ranks) {
  std::string text;
  for (const int rank : ranks) text += fmt::format(" {}", rank);
  return text;
}

void expect_members(const Group& group, const std::vector<int>& expected) {
  expect(members_of(group) == expected,
         fmt::format("group {} has the members{}, not{}", group.name(), listed(members_of(group)), listed(expected)));
  const int rank = group.members()[static_cast<std::size_t>(group.rank())];
  expect(std::find(expected.begin(), expected.end(), rank) != expected.end(), "own rank");
}

/// The sum of its members' numbers: wrong as soon as two groups mix.
void expect_own_sum(Group& group, float salt) {
  const auto mine = static_cast<float>(group.members()[static_cast<std::size_t>(group.rank())]) + salt;
  float sum = 0;
  for (const int member : group.members()) sum += static_cast<float>(member) + salt;
  const Tensor got = group.all_reduce(Tensor::of<float>({1}, std::vector{mine}));
  expect(got == Tensor::of<float>({1}, std::vector{sum}), fmt::format("sum over group {}", group.name()));
}

}  // namespace

TEST_CASE("a mesh of rows and columns is two splits") {
  const Body mesh = [](Side& side) {
    const int row = side.rank / 3, column = side.rank % 3;
    const auto along_row = side.world->split(row, column, "row");
    const auto along_column = side.world->split(column, row, "column");
    expect(along_row->name() == "row", "name");
    expect_members(*along_row, {3 * row, 3 * row + 1, 3 * row + 2});
    expect_members(*along_column, {column, column + 3});
    for (int i = 0; i < 20; ++i) {
      expect_own_sum(*along_row, static_cast<float>(i));
      if (column == 1) expect_own_sum(*along_column, 100);  // a group that only some use, at their own time
      if (i % 7 == 0) expect_own_sum(*side.world, 1000);
    }
  };
  CHECK(run_threads(6, mesh) == all_well(6));
  CHECK(run_processes(6, mesh) == all_well(6));
  CHECK(run_messages(6, mesh) == all_well(6));
}

TEST_CASE("keys order a group, ranks break ties, a negative color joins none") {
  const Body keys = [](Side& side) {
    const auto reversed = side.world->split(0, -side.rank, "reversed");
    expect_members(*reversed, {4, 3, 2, 1, 0});
    expect(reversed->rank() == 4 - side.rank, "rank in the group");
    const Tensor all = reversed->all_gather(iota(static_cast<float>(side.rank), 1));
    for (int i = 0; i < 5; ++i) expect(all.row(i) == iota(static_cast<float>(4 - i), 1), "all_gather in group order");
    expect_members(*side.world->split(7, 1, "tied"), {0, 1, 2, 3, 4});
    const auto some = side.world->split(side.rank % 2 == 0 ? 3 : -1, 0, "even");
    expect((some != nullptr) == (side.rank % 2 == 0), "who joined");
    if (some) expect_own_sum(*some, 1);
  };
  CHECK(run_threads(5, keys) == all_well(5));
  CHECK(run_processes(5, keys) == all_well(5));
  CHECK(run_messages(5, keys) == all_well(5));
}

TEST_CASE("groups split again, down to one rank, which issues nothing") {
  const Body nested = [](Side& side) {
    const auto half = side.world->split(side.rank / 4, side.rank, "half");
    const auto pair = half->split(half->rank() / 2, half->rank(), "pair");
    const auto alone = pair->split(pair->rank(), 0, "alone");
    expect_members(*alone, {side.rank});
    const std::string before = side.control.last_call(side.rank);
    expect_own_sum(*alone, 1);
    expect(alone->all_gather(iota(5, 2)).row(0) == iota(5, 2), "all_gather alone");
    expect(alone->split(0, 0, "again") != nullptr && alone->split(-1, 0, "none") == nullptr, "splits of one rank");
    expect(side.control.last_call(side.rank) == before, "a group of one rank issued a call");
    expect_own_sum(*pair, 2);
    expect_own_sum(*half, 3);
  };
  CHECK(run_threads(8, nested) == all_well(8));
  CHECK(run_messages(8, nested) == all_well(8));
}

TEST_CASE("a group that makes a call is known by its name, however many others were made and dropped before") {
  const Body many = [](Side& side) {
    const auto kept = side.world->split(0, 0, "kept");
    for (int i = 0; i < 20; ++i) side.world->split(0, 0, fmt::format("dropped {}", i));
    expect_own_sum(*kept, 1);
    const std::string call = side.control.last_call(side.rank);
    expect(call.ends_with(" in group kept"), call);
  };
  CHECK(run_threads(2, many) == all_well(2));
  CHECK(run_messages(2, many) == all_well(2));
}

TEST_CASE("random subgroups make calls in their own orders") {
  const std::uint64_t seed = Catch::getSeed();
  INFO("replay with --rng-seed " << seed);
  const int size = GENERATE(3, 6);
  const Body random = [seed](Side& side) {
    std::mt19937_64 same_on_all(seed);
    std::vector<std::shared_ptr<Group>> groups{side.world};
    for (int i = 0; i < 6; ++i) {
      std::vector<int> colors(static_cast<std::size_t>(side.size));
      for (int& color : colors) color = static_cast<int>(same_on_all() % 3) - 1;
      groups.push_back(side.world->split(colors[static_cast<std::size_t>(side.rank)], 0, fmt::format("random {}", i)));
    }
    for (int step = 0; step < 400; ++step) {
      const auto which = same_on_all() % groups.size();
      if (groups[which]) expect_own_sum(*groups[which], static_cast<float>(step));
    }
  };
  CHECK(run_threads(size, random) == all_well(size));
  CHECK(run_processes(size, random) == all_well(size));
  CHECK(run_messages(size, random) == all_well(size));
}

TEST_CASE("groups leave no files, and every rank reports the same error for a group that cannot be made") {
  const Body files = [](Side& side) {
    const auto part = side.world->split(0, 0, "part");
    side.world->barrier();
    std::set<std::string> left;
    for (const auto& entry : std::filesystem::directory_iterator(side.directory)) left.insert(entry.path().filename());
    expect(left == std::set<std::string>{"control", "store"}, "a file of the fabric is left");
    side.world->barrier();

    if (side.rank == 1) std::filesystem::remove_all(side.directory);
    side.world->barrier();
    const std::string text = thrown_by<std::runtime_error>([&] { side.world->split(side.rank % 2, 0, "more"); });
    expect(text.find("group world: split into more: rank 0: shm fabric: create") == 0, text);
    expect_own_sum(*part, 1);
    expect_own_sum(*side.world, 2);
  };
  CHECK(run_processes(4, files) == all_well(4));
}

TEST_CASE("calls that cannot be made are refused before anybody else is disturbed") {
  const Body refused = [](Side& side) {
    std::vector<std::byte> bytes(64);
    const auto text_of = [&](CollectiveKind kind, std::uint64_t count, std::size_t in, std::size_t out, auto change) {
      Call call;
      call.descriptor = {
          .sequence = 0, .count = count, .root = -1, .kind = kind, .dtype = DType::f32, .op = ReduceOp::none};
      call.in = std::span(bytes).first(in);
      call.out = std::span(bytes).subspan(32).first(out);
      change(call);
      return thrown_by<std::invalid_argument>([&] { side.world->run(call); });
    };
    const auto nothing = [](Call&) {};
    const auto contains = [](const std::string& text, const char* what) {
      expect(text.find(what) != std::string::npos, text + " | lacks: " + what);
    };
    contains(text_of(CollectiveKind::all_gather, 2, 7, 16, nothing),
             "all_gather of 2 f32: `in` has 7 bytes, not the 8 of 2 f32");
    contains(text_of(CollectiveKind::all_gather, 2, 8, 8, nothing), "`out` has 8 bytes, not the 16 of 4 f32");
    contains(text_of(CollectiveKind::reduce_scatter, 3, 12, 4, nothing),
             "the count, 3, does not divide by the 2 ranks");
    contains(text_of(CollectiveKind::all_reduce, 2, 8, 8, nothing), "needs an operation");
    contains(text_of(CollectiveKind::broadcast, 2, 8, 8, nothing), "root -1 is not a rank of a group of 2");
    contains(text_of(CollectiveKind::send_recv, 2, 8, 8, [](Call& call) { call.to = 2; }), "`to` is 2");
    contains(text_of(CollectiveKind::all_reduce, 2, 8, 8,
                     [&](Call& call) {
                       call.descriptor.op = ReduceOp::premul_sum;
                       call.descriptor.dtype = DType::i32;
                       call.descriptor.factor = 0.5;
                     }),
             "factor 0.5 is not a value of i32");
    contains(text_of(CollectiveKind::all_reduce, 2, 8, 8,
                     [&](Call& call) {
                       call.descriptor.op = ReduceOp::sum;
                       call.out = std::span(bytes).subspan(4).first(8);
                     }),
             "overlap");
    contains(text_of(CollectiveKind::barrier, 2, 0, 0, nothing), "a barrier moves no data");
    contains(text_of(CollectiveKind::all_gather, ~std::uint64_t{0}, 8, 8, nothing), "more bytes than memory can hold");
    expect(side.world->run({}).sequence == 0, "a refused call took a number");
  };
  CHECK(run_threads(2, refused) == all_well(2));
  CHECK(run_messages(2, refused) == all_well(2));
}

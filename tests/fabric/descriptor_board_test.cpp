#include "harness/fabric/descriptor_board.hpp"

#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/fabric/boards.hpp"
#include "harness/fabric/messages/message_boards.hpp"
#include "tests/fabric/mailboxes.hpp"
#include "tests/fabric/worlds.hpp"

using namespace shardproof;
using shardproof::testing::await;
using shardproof::testing::expect;
using shardproof::testing::run_threads;
using shardproof::testing::Side;
using Look = fabric::DescriptorBoard::Look;

namespace {

Descriptor asked(std::uint64_t count, CollectiveKind kind = CollectiveKind::all_gather) {
  Descriptor descriptor{.count = count, .kind = kind, .dtype = DType::f32};
  descriptor.set_tag("layer");
  return descriptor;
}

/// The boards of a rank.
using BoardsOf = std::function<std::shared_ptr<fabric::Boards>(int rank)>;
using BoardBody = std::function<void(Side&, fabric::DescriptorBoard&)>;

void on_ranks(int size, const std::function<void(Side&)>& body) {
  for (const std::string& failure : run_threads(size, body)) {
    INFO(failure);
    CHECK(failure.empty());
  }
}

void on_boards(int size, const BoardsOf& boards_of, const BoardBody& body) {
  on_ranks(size, [&](Side& side) {
    const auto boards = boards_of(side.rank);
    const auto board = boards->make(*side.world);
    body(side, *board);
    side.world->barrier("end");
  });
}

/// Runs the body twice: with one board in shared memory, and then with a copy on each rank, by messages.
void on_boards(int size, const BoardBody& body) {
  const auto shared = std::make_shared<fabric::SharedBoards>(fabric::shm::make_thread_memory());
  on_boards(size, [&](int) { return shared; }, body);
  testing::Mailboxes mailboxes(size, Catch::getSeed());
  on_boards(
      size, [&](int rank) { return std::make_shared<fabric::messages::MessageBoards>(mailboxes.open(rank)); }, body);
}

std::string mismatch(fabric::DescriptorBoard& board, Look look) {
  try {
    board.check(look);
  } catch (const Mismatch& error) {
    return error.what();
  }
  return {};
}

std::string awaited_mismatch(fabric::DescriptorBoard& board, Look look) {
  std::string text;
  await([&] { return !(text = mismatch(board, look)).empty(); }, "no mismatch");
  return text;
}

}  // namespace

TEST_CASE("ranks that post the same thousands of times, at their own pace, agree") {
  on_boards(3, [](Side& side, fabric::DescriptorBoard& board) {
    for (std::uint64_t i = 0; i < 5000; ++i) {
      while (!board.has_room()) board.check(Look::at_everything);
      expect(board.post(asked(i % 7 + 1)) == i, "the number of a call");
      if (side.rank == 0 || i % 100 == 0)
        expect(mismatch(board, Look::at_everything).empty(), "a mismatch, although all calls are equal");
    }
    side.world->barrier("all posted");
    await(
        [&] {
          expect(mismatch(board, Look::at_whole_calls).empty(), "a mismatch, although all calls are equal");
          return board.missing_calls().empty();
        },
        "a call is missing");
  });
}

TEST_CASE("the first two that differ are named, alike on every rank, once all have posted") {
  on_boards(4, [](Side& side, fabric::DescriptorBoard& board) {
    board.post(asked(8));
    if (side.rank == 2) board.post(asked(9));
    side.world->barrier("rank 2 is ahead");
    if (side.rank != 2) expect(mismatch(board, Look::at_whole_calls).empty(), "reported before all ranks have posted");
    if (side.rank != 2) board.post(asked(8));
    side.world->barrier("all posted");
    const std::string expected =
        "group world, call #1: rank 0 asks for all_gather of 8 f32 \"layer\", rank 2 for all_gather of 9 f32 \"layer\"";
    const std::string found = awaited_mismatch(board, Look::at_whole_calls);
    expect(found == expected, found);
    board.post(asked(8));
    expect(mismatch(board, Look::at_whole_calls) == expected, "the mismatch is not reported again");
  });
}

TEST_CASE("a rank that has waited for long reports ranks that differ though another rank is missing") {
  on_boards(3, [](Side& side, fabric::DescriptorBoard& board) {
    if (side.rank > 0) board.post(asked(8, side.rank == 1 ? CollectiveKind::all_gather : CollectiveKind::broadcast));
    side.world->barrier("two have posted");
    if (side.rank == 1) {
      expect(mismatch(board, Look::at_whole_calls).empty(), "reported before all ranks have posted");
      await(
          [&] {
            expect(mismatch(board, Look::at_whole_calls).empty(), "reported before all ranks have posted");
            return board.missing_calls() == "rank 0 has posted 0 of 1 calls of group world";
          },
          "rank 0 is missing");
      expect(mismatch(board, Look::at_everything).find("rank 1 asks for all_gather") != std::string::npos,
             "not reported");
    }
    side.world->barrier("it is known");
    awaited_mismatch(board, Look::at_whole_calls);
  });
}

TEST_CASE("a rank may be ahead by as many calls as are kept, and no more") {
  on_boards(2, [](Side& side, fabric::DescriptorBoard& board) {
    if (side.rank == 0) {
      for (std::uint64_t i = 0; i < fabric::DescriptorBoard::kept; ++i) {
        expect(board.has_room(), "no room");
        board.post(asked(1));
      }
      expect(!board.has_room(), "room for what nobody could compare any more");
    }
    side.world->barrier("rank 0 is ahead");
    board.check(Look::at_everything);
    // Copies report their comparisons once for each quarter of the calls that are kept.
    for (std::uint64_t i = 0; side.rank == 1 && i < fabric::DescriptorBoard::kept / 4; ++i) board.post(asked(1));
    const auto is_there = [&] { return side.rank == 0 ? board.has_room() : board.missing_calls().empty(); };
    await(
        [&] {
          board.check(Look::at_everything);
          return is_there();
        },
        "no room though calls were compared");
  });
}

TEST_CASE("copies of boards keep no news of boards that are closed, nor news that has been sent") {
  if (testing::keeps_freed_memory()) SKIP("a sanitizer keeps the memory that is freed");
  constexpr int boards_made = 100;
  testing::Mailboxes mailboxes(2, Catch::getSeed());
  on_ranks(2, [&](Side& side) {
    fabric::messages::MessageBoards boards(mailboxes.open(side.rank));
    const auto kept = boards.make(*side.world);
    side.world->barrier("begin");
    const std::size_t before = testing::resident_bytes();
    for (int made = 0; made < boards_made; ++made) {
      auto board = boards.make(*side.world);
      const bool is_early = made % 2 == 0;
      if (is_early && side.rank == 0) board.reset();
      side.world->barrier("made");
      for (std::uint64_t i = 0; side.rank == 1 && i < fabric::DescriptorBoard::kept; ++i) board->post(asked(i));
      side.world->barrier("posted");
      kept->check(Look::at_everything);
    }
    side.world->barrier("end");
    expect(testing::resident_bytes() < before + (std::size_t{8} << 20), "news is kept");
  });
}

TEST_CASE("a copy of a board takes no news that is too short, or of a rank that is not in its group") {
  testing::Mailboxes mailboxes(3, Catch::getSeed());
  on_ranks(3, [&](Side& side) {
    fabric::messages::MessageBoards boards(mailboxes.open(side.rank));
    const auto pair = side.world->split(side.rank < 2 ? 0 : -1, 0, "pair");
    const auto board = pair ? boards.make(*pair) : nullptr;
    side.world->barrier("made");
    if (side.rank > 0) {
      std::vector<std::byte> news(side.rank == 1 ? 4 : 4000);
      news[0] = std::byte{2};  // a mismatch was found
      mailboxes.open(side.rank)->send(news, 0, 0);
    }
    side.world->barrier("sent");
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
    while (side.rank == 0 && std::chrono::steady_clock::now() < until)
      board->check(Look::at_everything);  // throws a mismatch that was taken
    side.world->barrier("end");
  });
}

TEST_CASE("copies of boards take a tag each, and a rank that has used them all says so") {
  testing::Mailboxes mailboxes(2, Catch::getSeed(), 1);
  on_ranks(2, [&](Side& side) {
    fabric::messages::MessageBoards boards(mailboxes.open(side.rank));
    for (int number = 0; number < 2; ++number) boards.make(*side.world);
    const std::string text = testing::thrown_by<std::runtime_error>([&] { boards.make(*side.world); });
    expect(text ==
               "group world: mailboxes has only 1 tags, and the board of each group takes one: make fewer groups "
               "in one world",
           text);
  });
}

TEST_CASE("copies of boards of several groups do not mix if groups have different ranks and numbers of boards") {
  testing::Mailboxes mailboxes(4, Catch::getSeed());
  on_ranks(4, [&](Side& side) {
    fabric::messages::MessageBoards boards(mailboxes.open(side.rank));
    // Groups {1, 0} and {3, 2}. Only the first one has a board before that of the world.
    const auto pair = side.world->split(side.rank / 2, -side.rank, "pair");
    const auto early = side.rank < 2 ? boards.make(*pair) : nullptr;
    const auto whole = boards.make(*side.world);
    const auto late = boards.make(*pair);
    const auto counts = [&] {
      return std::vector<std::pair<fabric::DescriptorBoard*, std::uint64_t>>{
          {early.get(), 1}, {whole.get(), 2}, {late.get(), static_cast<std::uint64_t>(3 + side.rank / 2)}};
    };
    for (int call = 0; call < 3; ++call) {
      for (const auto& [board, count] : counts()) {
        if (board != nullptr) board->post(asked(count));
      }
    }
    side.world->barrier("all posted");
    for (const auto& [board, count] : counts()) {
      if (board == nullptr) continue;
      await(
          [&, one = board] {
            expect(mismatch(*one, Look::at_everything).empty(), "a mismatch, although all calls are equal");
            return one->missing_calls().empty();
          },
          "a call is missing");
    }
    side.world->barrier("all compared");
    // In the second pair, the first member posts another call than the second one.
    if (side.rank == 3) late->post(asked(8));
    if (side.rank == 2) late->post(asked(9));
    if (side.rank >= 2) {
      const std::string found = awaited_mismatch(*late, Look::at_whole_calls);
      expect(found ==
                 "group pair, call #3: rank 3 asks for all_gather of 8 f32 \"layer\", "
                 "rank 2 for all_gather of 9 f32 \"layer\"",
             found);
    }
    side.world->barrier("compared");
    expect(mismatch(*whole, Look::at_everything).empty(), "a mismatch of another group");
    side.world->barrier("end");
  });
}

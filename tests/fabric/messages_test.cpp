// Rules that only fabrics of messages have: for calls that end early, for their messages, and for the end of the world.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "harness/control/flight_ring.hpp"
#include "harness/fabric/messages/message_fabric.hpp"
#include "harness/fabric/messages/messenger.hpp"
#include "tests/fabric/message_worlds.hpp"
#include "tests/rounds.hpp"

using namespace shardproof;
using namespace shardproof::testing;

namespace {

/// The error of a call that waits for a rank that does not come. The first rank to give up releases the others.
std::string given_up_by(const Side& side, Group& group, const Tensor& mine) {
  try {
    group.all_gather(mine, "layers.1");
  } catch (const control::DeadlineExceeded& deadline) {
    expect_contains(deadline.what(), fmt::format("rank {}: all_gather #", side.rank));
    return deadline.what();
  } catch (const control::Released& released) {
    expect(released.abort().reason == control::AbortReason::deadline, released.what());
    return released.what();
  }
  expect(false, "completed without a rank");
  return {};
}

}  // namespace

TEST_CASE("messages: the fabric promises what ranks on several hosts need") {
  const Body promises = [](Side& side) {
    const FabricCapabilities& can = side.world->capabilities();
    expect(can.rank_ordered && can.pre_checked && can.multi_host && !can.survives_abort, "capabilities");
  };
  CHECK(run_messages(2, promises) == all_well(2));
}

TEST_CASE("messages: a world without errors ends in order") {
  const int size = GENERATE(1, 2, 5);
  Mailboxes mailboxes(size, Catch::getSeed());
  const Body body = [](Side& side) {
    side.world->all_reduce(iota(1, 100'000));
    if (const auto part = side.world->split(side.rank % 2, 0, "part")) part->barrier();
  };
  CHECK(run_messages(size, body, mailboxes) == all_well(size));
  CHECK(mailboxes.finished() == size);
  CHECK(mailboxes.unfinished_sends() == 0);
}

TEST_CASE("messages: each rank reports the same part of a text of a mismatch that is too long for a message") {
  const Body differ = [](Side& side) {
    const std::string name(3000, 'n');
    const auto group = side.world->split(0, 0, name);
    const std::string text = thrown_by<Mismatch>([&] { group->all_reduce(iota(0, 3 + side.rank)); });
    expect(text == ("group " + name).substr(0, 1536), text);
    expect(group->all_reduce(iota(1, 1)) == iota(3, 1), "the group is of no use any more");
  };
  CHECK(run_messages(3, differ) == all_well(3));
}

TEST_CASE("messages: a rank that has waited does not count as waiting any more") {
  const Body body = [](Side& side) {
    if (side.rank == 0) await([&] { return side.control.waiting_ranks() == 1; }, "rank 1 does not wait");
    side.world->barrier();
    await([&] { return side.control.waiting_ranks() == 0; }, "a rank is still counted");
  };
  CHECK(run_messages(2, body) == all_well(2));
}

TEST_CASE("messages: a group of one rank sends nothing") {
  Mailboxes mailboxes(1);
  CHECK(run_messages(1, [](Side& side) { side.world->all_reduce(iota(1, 10)); }, mailboxes) == all_well(1));
  CHECK(mailboxes.sent() == 0);
}

TEST_CASE("messages: the memory of messages is bounded, however large the operands are") {
  Mailboxes mailboxes(2);
  const Body large = [](Side& side) {
    const std::int64_t elements = 10'000'000;
    Tensor ones = Tensor::host(DType::i32, {elements});
    side.world->all_reduce(ones);
    side.world->all_gather(ones);
  };
  CHECK(run_messages(2, large, mailboxes) == all_well(2));
  CHECK(mailboxes.longest() <= 1U << 20);
}

TEST_CASE("messages: an abort releases the ranks in a call, and later calls say that the world must be replaced") {
  const int size = GENERATE(2, 4);
  const int culprit = GENERATE(0, 1);
  Mailboxes mailboxes(size, Catch::getSeed());
  const Body aborted = [&](Side& side) {
    side.world->barrier();
    if (side.rank == culprit) {
      for (int peer = 0; peer < side.size; ++peer) {
        while (peer != culprit && !side.control.last_call(peer).starts_with("all_reduce")) std::this_thread::yield();
      }
      side.control.raise_abort(side.epoch, {culprit, control::AbortReason::failed, "line 7"});
    } else {
      const std::string text = thrown_by<control::Released>([&] { side.world->all_reduce(iota(0, 100'000)); });
      expect_contains(text, "line 7");
    }
    thrown_by<control::Released>([&] { side.world->barrier(); });
    side.next_case();
    if (side.rank == culprit && culprit != 0) return;  // the first rank does not come to compare its request
    const std::string text = thrown_by<std::runtime_error>([&] { side.world->barrier(); });
    expect_contains(text, "fresh world");
    expect_contains(text,
                    side.rank == culprit ? "a message of an earlier case arrived (case 1, now case 2)" : "line 7");
  };
  CHECK(run_messages(size, aborted, mailboxes) == all_well(size));
  // All ranks are alive, so they take each other's messages, and the library can finish.
  CHECK(mailboxes.finished() == size);
  CHECK(mailboxes.unfinished_sends() == 0);
}

TEST_CASE(
    "messages: each rank reports a mismatch, although the first rank aborts the case before its verdict arrives") {
  const std::uint64_t seed = Catch::getSeed();
  INFO("replay with --rng-seed " << seed);
  for (int round = 0; round < rounds(20); ++round) {
    Mailboxes mailboxes(3, seed + static_cast<std::uint64_t>(round));
    const Body differ = [](Side& side) {
      const std::string text = thrown_by<Mismatch>([&] { side.world->all_reduce(iota(0, 3 + side.rank)); });
      expect_contains(text, "rank 0 asks for all_reduce of 3 f32 (sum), rank 1 for all_reduce of 4 f32 (sum)");
      side.control.raise_abort(side.epoch, {side.rank, control::AbortReason::disagreed, text});
    };
    CHECK(run_messages(3, differ, mailboxes) == all_well(3));
  }
}

TEST_CASE("messages: a mismatch in one group soon releases the ranks that wait in another") {
  Mailboxes mailboxes(3, Catch::getSeed());
  const Body differ = [](Side& side) {
    const auto pair = side.world->split(side.rank < 2 ? 0 : -1, 0, "pair");
    if (!pair) {
      const auto began = std::chrono::steady_clock::now();
      const std::string text = thrown_by<control::Released>([&] { side.world->barrier(); });
      expect(std::chrono::steady_clock::now() - began < std::chrono::seconds(10), "released by the deadline");
      return expect_contains(text, "group pair");
    }
    const std::string text = thrown_by<Mismatch>([&] { pair->all_reduce(iota(0, 3 + side.rank)); });
    side.control.raise_abort(side.epoch, {side.rank, control::AbortReason::disagreed, text});
  };
  CHECK(run_messages(3, differ, mailboxes) == all_well(3));
}

TEST_CASE("messages: an abort at any time leaves no send and no rank behind") {
  const std::uint64_t seed = Catch::getSeed();
  INFO("replay with --rng-seed " << seed);
  for (int round = 0; round < rounds(40); ++round) {
    const int size = 2 + round % 4, culprit = round % size;
    Mailboxes mailboxes(size, seed + static_cast<std::uint64_t>(round));
    const Body body = [&](Side& side) {
      std::mt19937_64 random(seed + static_cast<std::uint64_t>(round));
      std::thread aborting;
      if (side.rank == culprit) {
        aborting = std::thread([&, delay = std::chrono::microseconds(random() % 3000)] {
          std::this_thread::sleep_for(delay);
          side.control.raise_abort(side.epoch, {culprit, control::AbortReason::interrupted, "now"});
        });
      }
      const std::string text = thrown_by<control::Released>([&] {
        while (true) {
          side.world->all_reduce(iota(0, 10));
          side.world->all_to_all(iota(0, side.size * 20'000));
        }
      });
      if (aborting.joinable()) aborting.join();
      expect_contains(text, "now");
    };
    CHECK(run_messages(size, body, mailboxes) == all_well(size));
    CHECK(mailboxes.finished() == size);
    CHECK(mailboxes.unfinished_sends() == 0);
  }
}

TEST_CASE("messages: a dead rank releases its peers when the world is doomed, and the library does not finish") {
  const int victim = GENERATE(0, 2);
  const int sends = GENERATE(0, 1, 4);
  Mailboxes mailboxes(3, Catch::getSeed());
  std::atomic<int> begun{0};
  const Body dying = [&](Side& side) {
    side.world->barrier();
    ++begun;
    if (side.rank == victim) mailboxes.drop(victim, sends);
    const std::string text = thrown_by<control::Released>([&] {
      while (true) {
        side.world->all_reduce(iota(0, 100'000));
        // As a launcher does when it sees the death.
        if (side.rank == victim) side.control.doom({victim, control::AbortReason::died, "signal 9"});
      }
    });
    expect_contains(text, "signal 9");
  };
  const auto watch = [&](Side& side) {
    if (side.rank != victim) return dying(side);
    std::thread launcher([&] {
      while (begun < 3 && !side.control.doomed()) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      side.control.doom({victim, control::AbortReason::died, "signal 9"});
    });
    try {
      dying(side);
    } catch (...) {
      launcher.join();
      throw;
    }
    launcher.join();
  };
  CHECK(run_messages(3, watch, mailboxes) == all_well(3));
  CHECK(mailboxes.finished() == 0);
}

TEST_CASE("messages: every waiting rank reports a circle of waits at once, in the same words") {
  const Body circle = [](Side& side) {
    const auto left = side.world->split(side.rank < 2 ? 0 : -1, 0, "left");
    const auto right = side.world->split(side.rank > 0 ? 0 : -1, 0, "right");
    side.next_case();
    Group& group = side.rank == 0 ? *left : side.rank == 1 ? *right : *side.world;
    const auto began = std::chrono::steady_clock::now();
    const std::string text = thrown_by<control::Deadlock>([&] { group.barrier("x"); });
    expect(std::chrono::steady_clock::now() - began < std::chrono::seconds(10), "found by the deadline");
    expect(text == R"(every rank waits and no rank can continue: rank 0 in barrier #0 "x" in group left for rank 1, )"
                   R"(rank 1 in barrier #0 "x" in group right for rank 2, )"
                   R"(rank 2 in barrier #0 "x" in group world for ranks 0, 1)",
           text);
  };
  CHECK(run_messages(3, circle) == all_well(3));
}

TEST_CASE("messages: a rank that ends the case without a call that the others wait in closes the circle") {
  const int early = GENERATE(0, 1, 3);
  const Body body = [early](Side& side) {
    side.world->barrier();
    if (side.rank != early) {
      const std::string text = thrown_by<control::Deadlock>([&] { side.world->barrier("x"); });
      expect_contains(text, fmt::format("rank {} in the agreement between cases", early));
    }
    side.next_case();
  };
  CHECK(run_messages(4, body) == all_well(4));
}

TEST_CASE("messages: late messages and late ranks are not a deadlock") {
  const std::uint64_t seed = Catch::getSeed();
  INFO("replay with --rng-seed " << seed);
  const int size = GENERATE(2, 5);
  const Body body = [&](Side& side) {
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(side.rank));
    const auto pair = side.world->split(side.rank / 2, 0, "pair");
    for (int round = 0; round < rounds(20); ++round) {
      // Longer than the time after which a rank searches.
      if (random() % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 12));
      pair->all_reduce(iota(0, 100));
      side.world->all_to_all(iota(0, side.size * 20'000));
      if (round % 4 == 3) side.next_case();
    }
  };
  CHECK(run_messages(size, body) == all_well(size));
}

TEST_CASE("messages: the deadline names the missing rank and its last call") {
  const int missing = GENERATE(0, 2);
  const Body late = [missing](Side& side) {
    if (side.rank == missing) {
      side.control.flight(missing).join_group(7, "another", std::array{missing});
      side.control.flight(missing).enter_call(7, side.epoch + 1, Descriptor{.sequence = 7});
    }
    side.next_case();
    if (side.rank == missing) {
      while (!side.control.aborted(side.epoch)) std::this_thread::yield();
      thrown_by<control::Released>([&] { side.world->barrier(); });
      return side.next_case();
    }
    const std::string text = given_up_by(side, *side.world, iota(0, 3));
    expect_contains(text, R"(all_gather #0 of 3 f32 "layers.1" in group world: after )");
    expect_contains(text, fmt::format("there is no sign of rank {} (last call: barrier #7 in group another)", missing));
    side.next_case();
    expect_contains(thrown_by<std::runtime_error>([&] { side.world->barrier(); }), "The earlier call ended with: ");
  };
  CHECK(run_messages(3, late, {.timeout = std::chrono::milliseconds(200)}) == all_well(3));
}

TEST_CASE("messages: the deadline names the rank whose bytes are missing") {
  Mailboxes mailboxes(2);
  const Body late = [&](Side& side) {
    side.world->barrier();
    if (side.rank == 1) mailboxes.drop(1, 1);  // its request arrives, and its bytes do not
    const std::string text = given_up_by(side, *side.world, iota(0, 3));
    if (text.find("rank 0: all_gather") != std::string::npos)
      expect_contains(text, "bytes are still to come from or to go to rank 1 (last call: all_gather #1 of 3 f32");
    side.control.doom({0, control::AbortReason::deadline, text});  // or the farewell waits for the lost messages
  };
  CHECK(run_messages(2, late, mailboxes, {.timeout = std::chrono::milliseconds(30)}) == all_well(2));
}

TEST_CASE("messages: the deadline names no rank of another host that may have come") {
  Mailboxes mailboxes(5, Catch::getSeed());
  // Ranks 3 and 4 never come.
  std::array pages{control::ControlPage::anonymous(5), control::ControlPage::anonymous(5),
                   control::ControlPage::anonymous(5)};
  pages[0].set_local(std::array{0, 4});
  pages[1].set_local(std::array{1});
  pages[2].set_local(std::array{2, 3});
  const Body late = [](Side& side) {
    if (side.rank >= 3) return;
    const std::string text = thrown_by<control::DeadlineExceeded>([&] { side.world->barrier(); });
    expect_contains(text, fmt::format("rank {}: barrier #0 in group world: after ", side.rank));
    constexpr std::array ends{" s there is no sign of rank 3 (on another host), rank 4 (no call yet)",
                              " s the verdict is still to come from rank 0 (on another host)",
                              " s there is no sign of rank 3 (no call yet)"};
    expect(text.ends_with(ends[static_cast<std::size_t>(side.rank)]), text);
  };
  control::ControlPage unused = control::ControlPage::anonymous(5);
  const auto group_of = [&](int rank, std::atomic<std::uint32_t>& epoch) {
    return fabric::MessageFabric(
               "mail",
               {.control = &pages[std::array<std::size_t, 5>{0, 1, 2, 2, 0}[static_cast<std::size_t>(rank)]],
                .epoch = [&epoch] { return epoch.load(); },
                .timeout = std::chrono::milliseconds(30),
                .rank = rank},
               mailboxes.open(rank))
        .join();
  };
  CHECK(run_on_threads(unused, late, group_of) == all_well(5));
}

namespace {

/// Each operation is over at its third test, whatever the other rank does. One message has arrived.
class SlowTransport final : public fabric::messages::Transport {
 public:
  struct Seen {
    bool has_finished = false, has_abandoned = false;
    std::size_t open_at_farewell = 0, open_at_end = 1;  ///< operations
  };
  SlowTransport(int rank, Seen& seen, bool fails = false) : rank_(rank), seen_(seen), fails_(fails) {}

  std::string_view name() const override { return "slow"; }
  int rank() const override { return rank_; }
  int size() const override { return 2; }
  int greatest_tag() const override { return 32767; }
  fabric::messages::Operation send(std::span<const std::byte>, int, int tag) override {
    if (tag == 0) seen_.open_at_farewell = tests_left_.size();
    return begin();
  }
  fabric::messages::Operation receive(std::span<std::byte>, int, int) override { return begin(); }
  bool test(fabric::messages::Operation& operation) override {
    if (fails_) throw std::runtime_error("a rank is gone");
    if (--tests_left_.at(operation.value) > 0) return false;
    tests_left_.erase(operation.value);
    return true;
  }
  void cancel(fabric::messages::Operation&) override {}
  std::optional<fabric::messages::Arrival> probe() override {
    if (std::exchange(has_probed_, true)) return std::nullopt;
    return fabric::messages::Arrival{.from = 1 - rank_, .tag = 7, .bytes = 3};
  }
  void finish() override {
    seen_.has_finished = true;
    seen_.open_at_end = tests_left_.size();
  }
  void abandon(std::shared_ptr<void> memory) override { seen_.has_abandoned = memory != nullptr; }

 private:
  fabric::messages::Operation begin() {
    tests_left_[++begun_] = 3;
    return {begun_};
  }

  int rank_;
  Seen& seen_;
  bool fails_;
  std::map<std::uint64_t, int> tests_left_;
  std::uint64_t begun_ = 0;
  bool has_probed_ = false;
};

}  // namespace

TEST_CASE("messages: a rank says farewell when its own operations are over, and ends when no operation is left") {
  const int rank = GENERATE(0, 1);
  SlowTransport::Seen seen;
  {
    fabric::messages::Messenger messenger(std::make_unique<SlowTransport>(rank, seen), [] { return false; });
    std::array<std::byte, 3> bytes{};
    messenger.send(bytes, 1 - rank, 5);
  }
  CHECK(seen.has_finished);
  CHECK(seen.open_at_farewell == (rank == 0 ? 0 : 1));  // rank 1 waits for the answer
  CHECK(seen.open_at_end == 0);
}

TEST_CASE("messages: a rank whose library fails at its end leaves it as it is") {
  SlowTransport::Seen seen;
  {
    fabric::messages::Messenger messenger(std::make_unique<SlowTransport>(1, seen, true), [] { return false; });
    std::array<std::byte, 3> bytes{};
    messenger.send(bytes, 0, 5);
  }
  CHECK_FALSE(seen.has_finished);
  CHECK(seen.has_abandoned);
}

TEST_CASE("messages: the ranks whose messages are missing are named once, in order") {
  Mailboxes mailboxes(4);
  fabric::messages::Messenger messenger(mailboxes.open(1), [] { return true; });
  std::array<std::byte, 3> rooms{};
  for (const int from : {3, 0, 3}) messenger.receive(rooms, from, 5);
  CHECK(messenger.missing() == std::vector{0, 3});
}

TEST_CASE("messages: a test that throws leaves each operation that is not over, once") {
  Mailboxes mailboxes(2);
  const auto peer = mailboxes.open(1);
  auto mailbox = mailboxes.open(0);
  fabric::messages::Transport& own = *mailbox;
  fabric::messages::Messenger messenger(std::move(mailbox), [] { return true; });
  std::array<std::byte, 6> bytes{};
  peer->send(bytes, 0, 5);
  await([&] { return own.probe().has_value(); }, "the message does not come");
  messenger.send(bytes, 1, 3);  // over at once
  messenger.receive(bytes, 1, 4);
  messenger.receive(std::span(bytes).first(5), 1, 5);
  CHECK_THROWS(messenger.advance());
  messenger.give_up("its receive has too little room");
  CHECK(messenger.advance());
  CHECK_FALSE(messenger.has_operations());
}

TEST_CASE("messages: ranks that have had different numbers of groups make one together") {
  const Body body = [](Side& side) {
    const auto pair = side.world->split(side.rank / 2, 0, "pair");
    if (side.rank < 2) pair->split(0, 0, "another");
    const auto all = side.world->split(0, 0, "all");
    expect(all->all_reduce(iota(1, 1)) == iota(4, 1), "the sum");
  };
  CHECK(run_messages(4, body) == all_well(4));
}

TEST_CASE("messages: every group takes a tag, and a world that has used them all says so") {
  Mailboxes mailboxes(2, 0, 3);
  const Body many = [](Side& side) {
    side.world->split(0, 0, "a");
    const auto alone = side.world->split(side.rank, 0, "b");
    const std::string text = thrown_by<std::runtime_error>([&] { side.world->split(0, 0, "c"); });
    expect_contains(text, "group world: split into c: mailboxes has only 3 tags");
    expect(alone->split(0, 0, "d") != nullptr, "a group of one rank takes a tag");
    side.world->barrier();
  };
  CHECK(run_messages(2, many, mailboxes) == all_well(2));
}

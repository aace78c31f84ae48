// The inbox without connections: which receive gets which message.
#include "harness/fabric/tcp/inbox.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "tests/fabric/worlds.hpp"
#include "tests/rounds.hpp"

using namespace shardproof;
using fabric::tcp::Inbox;
using testing::resident_bytes;
using testing::rounds;

namespace {

/// Room for a message, filled with dots.
struct TextRoom {
  explicit TextRoom(std::size_t bytes) : text(bytes, '.') {}
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(text)); }
  std::string text;
};

void copy_into(std::span<std::byte> place, std::string_view text) {
  REQUIRE(place.size() == text.size());
  std::ranges::copy(std::as_bytes(std::span(text)), place.begin());
}

void let_arrive(Inbox& inbox, int from, int tag, std::string_view text) {
  copy_into(inbox.begin(from, tag, text.size()), text);
  inbox.end(from);
}

}  // namespace

TEST_CASE("inbox: messages of a rank and a tag are received in order") {
  Inbox inbox;
  TextRoom first(3), other_tag(3), other_rank(3), second(3);
  inbox.receive(first.bytes(), 1, 5, 1);
  let_arrive(inbox, 1, 6, "tag");
  let_arrive(inbox, 2, 5, "rnk");
  CHECK_FALSE(inbox.is_over(1));
  let_arrive(inbox, 1, 5, "one");
  let_arrive(inbox, 1, 5, "two");
  CHECK(inbox.is_over(1));
  inbox.receive(other_tag.bytes(), 1, 6, 2);
  inbox.receive(other_rank.bytes(), 2, 5, 3);
  inbox.receive(second.bytes(), 1, 5, 4);
  for (const std::uint64_t operation : {2U, 3U, 4U}) CHECK(inbox.is_over(operation));
  CHECK(first.text == "one");
  CHECK(second.text == "two");
  CHECK(other_tag.text == "tag");
  CHECK(other_rank.text == "rnk");
  CHECK_FALSE(inbox.probe());
}

TEST_CASE("inbox: a receive gets its message before, in the middle of, and after the arrival") {
  const int when = GENERATE(0, 1, 2, 3);
  CAPTURE(when);
  Inbox inbox;
  TextRoom room(4);
  const auto receive_at = [&](int now) {
    if (now != when) return;
    inbox.receive(room.bytes(), 1, 5, 1);
    CHECK(inbox.is_over(1) == (now == 3));
  };
  receive_at(0);
  const auto place = inbox.begin(1, 5, 4);
  receive_at(1);
  std::ranges::copy(std::as_bytes(std::span("ab", 2)), place.begin());
  receive_at(2);
  std::ranges::copy(std::as_bytes(std::span("cd", 2)), place.begin() + 2);
  inbox.end(1);
  receive_at(3);
  CHECK(inbox.is_over(1));
  CHECK(room.text == "abcd");
  CHECK_FALSE(inbox.probe());
}

TEST_CASE("inbox: a message that is shorter than its room leaves the rest, and an empty one is a message") {
  const bool is_late = GENERATE(false, true);
  Inbox inbox;
  TextRoom wide(4), empty(2), none(0);
  const auto receive = [&] {
    inbox.receive(wide.bytes(), 1, 5, 1);
    inbox.receive(empty.bytes(), 1, 5, 2);
    inbox.receive(none.bytes(), 1, 5, 3);
  };
  if (!is_late) receive();
  let_arrive(inbox, 1, 5, "ab");
  let_arrive(inbox, 1, 5, "");
  if (is_late) receive();
  CHECK(wide.text == "ab..");
  CHECK(empty.text == "..");
  CHECK((inbox.is_over(1) && inbox.is_over(2)));
  CHECK_FALSE(inbox.is_over(3));
  let_arrive(inbox, 1, 5, "");
  CHECK(inbox.is_over(3));
}

TEST_CASE("inbox: a receive that is cancelled before its message begins is over, and leaves the message to the next") {
  Inbox inbox;
  TextRoom cancelled(3), next(3);
  inbox.receive(cancelled.bytes(), 1, 5, 1);
  inbox.receive(next.bytes(), 1, 5, 2);
  inbox.cancel(1);
  CHECK(inbox.is_over(1));
  CHECK_FALSE(inbox.is_over(2));
  let_arrive(inbox, 1, 5, "abc");
  CHECK(inbox.is_over(2));
  CHECK(next.text == "abc");
  CHECK(cancelled.text == "...");
}

TEST_CASE("inbox: a receive that is cancelled while its message arrives gets the message") {
  Inbox inbox;
  TextRoom room(3), next(3);
  inbox.receive(room.bytes(), 1, 5, 1);
  inbox.receive(next.bytes(), 1, 5, 2);
  const auto place = inbox.begin(1, 5, 3);
  inbox.cancel(1);
  CHECK_FALSE(inbox.is_over(1));  // the place is in its room
  copy_into(place, "abc");
  inbox.end(1);
  CHECK(inbox.is_over(1));
  CHECK(room.text == "abc");
  CHECK_FALSE(inbox.is_over(2));
}

TEST_CASE("inbox: a receive that came after its message began can be cancelled at once") {
  Inbox inbox;
  TextRoom room(3);
  const auto place = inbox.begin(1, 5, 3);
  inbox.receive(room.bytes(), 1, 5, 1);
  inbox.cancel(1);
  CHECK(inbox.is_over(1));
  copy_into(place, "abc");
  inbox.end(1);
  CHECK(room.text == "...");
  const auto arrival = inbox.probe();
  REQUIRE(arrival);
  CHECK((arrival->from == 1 && arrival->tag == 5 && arrival->bytes == 3));
}

TEST_CASE("inbox: a cancel after the message came changes nothing") {
  Inbox inbox;
  TextRoom room(3);
  inbox.receive(room.bytes(), 1, 5, 1);
  let_arrive(inbox, 1, 5, "abc");
  inbox.cancel(1);
  CHECK(inbox.is_over(1));
  CHECK(room.text == "abc");
  CHECK_FALSE(inbox.probe());
}

TEST_CASE("inbox: a message that is lost while it arrives is dropped, and its receive stays open") {
  Inbox inbox;
  TextRoom first(3), second(3);
  inbox.receive(first.bytes(), 1, 5, 1);
  inbox.receive(second.bytes(), 1, 5, 2);
  inbox.begin(1, 5, 3);
  inbox.lose(1);
  inbox.lose(1);  // nothing is arriving any more
  CHECK_FALSE(inbox.is_over(1));
  CHECK_FALSE(inbox.is_over(2));
  CHECK_FALSE(inbox.probe());
  inbox.cancel(1);
  inbox.cancel(2);
  CHECK((inbox.is_over(1) && inbox.is_over(2)));
}

TEST_CASE("inbox: a cancelled receive is over when its message is lost") {
  Inbox inbox;
  TextRoom room(3);
  inbox.receive(room.bytes(), 1, 5, 1);
  inbox.begin(1, 5, 3);
  inbox.cancel(1);
  inbox.lose(1);
  CHECK(inbox.is_over(1));
}

TEST_CASE("inbox: if a message without a receive is lost, the whole messages before it stay") {
  Inbox inbox;
  let_arrive(inbox, 1, 5, "abc");
  inbox.begin(1, 5, 7);
  inbox.lose(1);
  TextRoom room(3), next(3);
  inbox.receive(room.bytes(), 1, 5, 1);
  inbox.receive(next.bytes(), 1, 5, 2);
  CHECK(room.text == "abc");
  CHECK(inbox.is_over(1));
  CHECK_FALSE(inbox.is_over(2));
  CHECK_FALSE(inbox.probe());
}

TEST_CASE("inbox: a probe shows only whole messages, and shows a message until it is received") {
  Inbox inbox;
  CHECK_FALSE(inbox.probe());
  const auto place = inbox.begin(3, 9, 2);
  CHECK_FALSE(inbox.probe());
  copy_into(place, "ab");
  inbox.end(3);
  for (int look = 0; look < 2; ++look) {
    const auto arrival = inbox.probe();
    REQUIRE(arrival);
    CHECK((arrival->from == 3 && arrival->tag == 9 && arrival->bytes == 2));
  }
  // The next message of another lane arrives.
  inbox.begin(1, 1, 4);
  CHECK(inbox.probe()->from == 3);
  TextRoom room(2);
  inbox.receive(room.bytes(), 3, 9, 1);
  CHECK_FALSE(inbox.probe());
}

TEST_CASE("inbox: a receive with less room than its message is an error, and the message stays") {
  const int when = GENERATE(0, 1, 2);
  CAPTURE(when);
  Inbox inbox;
  TextRoom narrow(2), wide(3), last(3);
  if (when == 0) inbox.receive(narrow.bytes(), 1, 5, 1);
  const auto place = inbox.begin(1, 5, 3);
  if (when == 1) inbox.receive(narrow.bytes(), 1, 5, 1);
  copy_into(place, "abc");
  inbox.end(1);
  if (when == 2) inbox.receive(narrow.bytes(), 1, 5, 1);
  let_arrive(inbox, 1, 5, "def");
  inbox.receive(wide.bytes(), 1, 5, 2);
  for (int look = 0; look < 2; ++look) {
    CHECK_THROWS_MATCHES(
        inbox.is_over(1), std::runtime_error,
        Catch::Matchers::Message("a message of rank 1 with tag 5 has 3 bytes, its receive has room for 2"));
  }
  CHECK(narrow.text == "..");
  CHECK_FALSE(inbox.is_over(2));  // the first message is not for this receive
  inbox.cancel(1);
  CHECK(inbox.is_over(1));
  CHECK(inbox.is_over(2));
  CHECK(wide.text == "abc");
  inbox.receive(last.bytes(), 1, 5, 3);
  CHECK(last.text == "def");
}

TEST_CASE("inbox: while a long message arrives, a second receive may have less room than it") {
  Inbox inbox;
  TextRoom wide(4), narrow(1);
  const auto place = inbox.begin(1, 5, 4);
  inbox.receive(wide.bytes(), 1, 5, 1);
  inbox.receive(narrow.bytes(), 1, 5, 2);
  copy_into(place, "abcd");
  inbox.end(1);
  let_arrive(inbox, 1, 5, "e");
  CHECK(inbox.is_over(1));
  CHECK(inbox.is_over(2));
  CHECK(wide.text == "abcd");
  CHECK(narrow.text == "e");
}

TEST_CASE("inbox: tags that are not used any more take no memory") {
  if (keeps_freed_memory()) SKIP("a sanitizer keeps the memory that is freed");
  Inbox inbox;
  TextRoom room(3);
  const std::size_t before = resident_bytes();
  std::uint64_t operation = 0;
  for (int tag = 0; tag < rounds(100'000); ++tag) {
    inbox.receive(room.bytes(), 1, tag, ++operation);
    let_arrive(inbox, 1, tag, "abc");
    let_arrive(inbox, 1, tag, "def");
    inbox.receive(room.bytes(), 1, tag, ++operation);
    inbox.receive(room.bytes(), 1, tag, ++operation);
    inbox.cancel(operation);
    inbox.begin(1, tag, 3);
    inbox.lose(1);
  }
  CHECK(resident_bytes() < before + (std::size_t{32} << 20));
}

namespace {

/// The expected behaviour of an inbox: lists of messages and receives, which each call searches from the start.
struct InboxModel {
  struct Letter {
    int from, tag;
    std::string text;
    bool is_whole = false;
    std::optional<std::uint64_t> receive;  ///< into whose room it arrives
  };
  struct Wish {
    int from, tag;
    std::uint64_t operation;
    bool is_cancelled = false;
  };
  std::deque<Letter> letters;  ///< Messages that no receive has got.
  std::deque<Wish> wishes;  ///< Receives that are not over.
  std::map<std::uint64_t, std::string> received;

  auto arriving_from(int rank) {
    return std::ranges::find_if(letters, [&](const Letter& one) { return one.from == rank && !one.is_whole; });
  }
  auto wish_of(std::uint64_t operation) {
    return std::ranges::find_if(wishes, [&](const Wish& one) { return one.operation == operation; });
  }
  bool is_bound(std::uint64_t operation) const {
    return std::ranges::any_of(letters, [&](const Letter& one) { return one.receive == operation; });
  }
  void begin(int from, int tag, std::string text) {
    const bool is_first =
        std::ranges::none_of(letters, [&](const Letter& one) { return one.from == from && one.tag == tag; });
    const auto wish = std::ranges::find_if(wishes, [&](const Wish& one) { return one.from == from && one.tag == tag; });
    letters.push_back({from, tag, std::move(text), false, {}});
    if (is_first && wish != wishes.end()) letters.back().receive = wish->operation;
  }
  void end(int from) {
    arriving_from(from)->is_whole = true;
    match();
  }
  void match() {
    for (auto wish = wishes.begin(); wish != wishes.end();) {
      const auto letter = std::ranges::find_if(
          letters, [&](const Letter& one) { return one.from == wish->from && one.tag == wish->tag; });
      if (letter == letters.end() || !letter->is_whole) {
        ++wish;
        continue;
      }
      received[wish->operation] = letter->text;
      letters.erase(letter);
      wishes.erase(wish);
      wish = wishes.begin();
    }
  }
  void cancel(std::uint64_t operation) {
    if (is_bound(operation)) wish_of(operation)->is_cancelled = true;
    else if (const auto wish = wish_of(operation); wish != wishes.end()) wishes.erase(wish);
  }
  void lose(int from) {
    const auto letter = arriving_from(from);
    if (letter == letters.end()) return;
    const auto receive = letter->receive;
    letters.erase(letter);
    if (receive && wish_of(*receive)->is_cancelled) wishes.erase(wish_of(*receive));
  }
  std::set<std::pair<int, int>> ways_with_letters() const {
    std::set<std::pair<int, int>> ways, seen;
    for (const Letter& one : letters) {
      if (seen.emplace(one.from, one.tag).second && one.is_whole) ways.emplace(one.from, one.tag);
    }
    return ways;
  }
};

void play_inbox(std::mt19937_64& random) {
  constexpr std::size_t most_bytes = 6;
  const auto draw = [&](int below) { return static_cast<int>(random() % static_cast<unsigned>(below)); };
  Inbox inbox;
  InboxModel model;
  std::deque<TextRoom> rooms;  // by operation
  std::map<int, std::span<std::byte>> places;
  const int tags = 1 + draw(3);
  for (int step = 0; step < 200; ++step) {
    const int from = draw(3), tag = draw(tags);
    const auto operation = static_cast<std::uint64_t>(rooms.empty() ? 0 : draw(static_cast<int>(rooms.size())));
    const auto arriving = model.arriving_from(from);
    const bool is_arriving = arriving != model.letters.end();
    switch (draw(6)) {
      case 0: {
        const std::uint64_t fresh = rooms.size();
        rooms.emplace_back(most_bytes);
        inbox.receive(rooms.back().bytes(), from, tag, fresh);
        model.wishes.push_back({from, tag, fresh});
        model.match();
        break;
      }
      case 1:
        if (!rooms.empty()) {
          inbox.cancel(operation);
          model.cancel(operation);
        }
        break;
      case 2:
        if (draw(4) == 0) {
          inbox.lose(from);
          model.lose(from);
        }
        break;
      default:
        if (!is_arriving) {
          std::string text(random() % (most_bytes + 1), static_cast<char>('a' + draw(26)));
          places[from] = inbox.begin(from, tag, text.size());
          model.begin(from, tag, std::move(text));
        } else {
          copy_into(places.at(from), arriving->text);
          inbox.end(from);
          model.end(from);
        }
    }
    for (std::uint64_t one = 0; one < rooms.size(); ++one) {
      INFO("step " << step << ", operation " << one);
      REQUIRE(inbox.is_over(one) == (model.wish_of(one) == model.wishes.end()));
      if (const auto got = model.received.find(one); got != model.received.end())
        REQUIRE(rooms[one].text == got->second + std::string(most_bytes - got->second.size(), '.'));
    }
    const auto ways = model.ways_with_letters();
    const auto arrival = inbox.probe();
    REQUIRE(arrival.has_value() == !ways.empty());
    if (arrival) REQUIRE(ways.contains({arrival->from, arrival->tag}));
  }
}

}  // namespace

TEST_CASE("inbox: random messages, receives, cancels and losses do what a simple model does") {
  const std::uint64_t seed = Catch::getSeed();
  for (int round = 0; round < rounds(300); ++round) {
    INFO("replay with --rng-seed " << seed << ", round " << round);
    std::mt19937_64 random(seed + static_cast<std::uint64_t>(round));
    play_inbox(random);
  }
}

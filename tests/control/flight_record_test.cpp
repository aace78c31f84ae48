#include "harness/protocol/flight_record.hpp"

#include <array>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"
#include "harness/control/control_page.hpp"
#include "harness/control/flight_ring.hpp"

using namespace shardproof;
using What = protocol::FlightEntry::What;
using State = protocol::FlightEntry::State;

namespace {

constexpr std::uint64_t whole_world = 1, left_pair = 2, right_pair = 3;

control::Deadline at(std::int64_t ns) { return control::Deadline(std::chrono::nanoseconds(ns)); }

Descriptor numbered(std::uint64_t sequence) {
  Descriptor call{.sequence = sequence, .count = sequence};
  call.set_tag(std::string(sequence % 70, static_cast<char>('a' + sequence % 26)));
  return call;
}

/// Three ranks in a case, all in one group and two pairs.
control::ControlPage three_in_a_case() {
  control::ControlPage page = control::ControlPage::anonymous(3);
  for (int rank = 0; rank < 3; ++rank) {
    control::FlightRing& flight = page.flight(rank);
    flight.join_group(whole_world, "world", std::array{0, 1, 2});
    if (rank < 2) flight.join_group(left_pair, "left", std::array{1, 0});
    if (rank > 0) flight.join_group(right_pair, "right", std::array{1, 2});
    flight.enter(What::case_begun, 4, at(1));
  }
  return page;
}

void come(control::ControlPage& page, int rank, std::uint64_t group, std::uint64_t sequence) {
  control::FlightRing& flight = page.flight(rank);
  flight.enter_call(group, 5, numbered(sequence));
  flight.meet();
  flight.wait(at(10 + rank));
}

std::vector<int> missing_of(const std::vector<protocol::FlightRecord>& records, int rank) {
  for (const protocol::PeerWait& wait : protocol::waits(records)) {
    if (wait.rank == rank) return wait.missing;
  }
  return {-1};
}

}  // namespace

TEST_CASE("a flight record keeps the last entries, oldest first, with their groups") {
  control::ControlPage page = three_in_a_case();
  CHECK(page.last_call(0).empty());
  for (std::uint64_t i = 0; i < 100; ++i) {
    come(page, 0, left_pair, i);
    page.flight(0).end(State::left);
  }
  const protocol::FlightRecord record = page.flight_records()[0];
  REQUIRE(record.entries.size() == control::FlightRing::entries_kept);
  CHECK(record.begun == 101);
  CHECK_FALSE(record.is_writing);
  for (std::size_t i = 0; i < record.entries.size(); ++i) {
    const protocol::FlightEntry& entry = record.entries[i];
    CHECK(same_request(entry.call, numbered(100 - control::FlightRing::entries_kept + i)));
    CHECK((entry.what == What::call && entry.state == State::left && entry.group == left_pair && entry.place == 5));
    CHECK((entry.meetings == 1 && entry.since_ns == 10));
  }
  REQUIRE(record.find_group(left_pair) != nullptr);
  CHECK(record.find_group(left_pair)->members == std::vector{0, 1});
  CHECK(page.last_call(0) == describe(numbered(99)) + " in group left");
  CHECK(record.last_case() == 4);  // though that entry has fallen out
  page.flight(0).enter(What::case_begun, 5, at(20));
  CHECK(page.last_call(0).empty());
  CHECK(page.flight_records()[0].last_case() == 5);
}

TEST_CASE("groups that were joined long ago are forgotten, and calls on them are not taken for calls on others") {
  control::ControlPage page = control::ControlPage::anonymous(1);
  const std::array alone{0};
  page.flight(0).join_group(999, "world", alone);
  page.flight(0).join_group(1000, "a group with a name that is longer than forty bytes", alone);
  page.flight(0).enter_call(1000, 1, numbered(0));
  CHECK(page.last_call(0) == "barrier #0 in group a group with a name that is longer than ");
  for (std::uint64_t i = 0; i < control::FlightRing::groups_kept; ++i) page.flight(0).join_group(i + 1, "young", alone);
  CHECK(page.last_call(0) == "barrier #0 in group of an unknown name");
  const auto records = page.flight_records();
  CHECK(protocol::is_held_up(protocol::waits(records), 0));  // no record shows which rank holds it up
  CHECK(records[0].find_group(999) != nullptr);  // the world is never forgotten
}

TEST_CASE("who waits for whom follows from the records of all ranks") {
  control::ControlPage page = three_in_a_case();
  come(page, 0, left_pair, 0);
  come(page, 1, right_pair, 0);
  come(page, 2, whole_world, 3);
  auto records = page.flight_records();
  CHECK(missing_of(records, 0) == std::vector{1});
  CHECK(missing_of(records, 1) == std::vector{2});
  CHECK(missing_of(records, 2) == std::vector{0, 1});

  page.flight(1).end(State::left);
  come(page, 1, whole_world, 4);  // it has been in #3, too, or it would not be in #4
  records = page.flight_records();
  CHECK(missing_of(records, 2) == std::vector{0});

  page.flight(0).end(State::released);
  page.flight(0).enter(What::body_ended, 4, at(30));
  page.flight(0).enter(What::agreement, 9, at(31));
  records = page.flight_records();
  CHECK(missing_of(records, 0) == std::vector{1});   // what it was released from still says why
  CHECK(missing_of(records, 2) == std::vector{-1});  // released with it, and still inside: it waits for no rank
}

TEST_CASE("in a call of several meetings, ranks that have come to more meetings wait") {
  control::ControlPage page = three_in_a_case();
  for (int rank = 0; rank < 3; ++rank) come(page, rank, whole_world, 7);
  CHECK(missing_of(page.flight_records(), 1).empty());
  page.flight(0).meet();
  page.flight(2).meet();
  CHECK(missing_of(page.flight_records(), 0) == std::vector{1});
  CHECK(missing_of(page.flight_records(), 1).empty());
}

TEST_CASE("at the end of a case, ranks that are still in it are missing") {
  control::ControlPage page = three_in_a_case();
  for (const int rank : {0, 2}) {
    page.flight(rank).enter(What::body_ended, 4, at(5));
    page.flight(rank).enter(What::agreement, 8, at(6));
  }
  const auto records = page.flight_records();
  CHECK(missing_of(records, 0) == std::vector{1});
  CHECK(missing_of(records, 1) == std::vector{-1});
}

TEST_CASE("a flight record is read whole while it is written") {
  control::ControlPage page = control::ControlPage::anonymous(1);
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (std::uint64_t i = 1; i <= 50'000; ++i) {
      page.flight(0).enter_call(i, static_cast<std::uint32_t>(i), numbered(i));
      page.flight(0).end(State::left);
    }
    done = true;
  });
  std::uint64_t seen = 0;
  std::string torn;
  for (bool last = false; !last;) {
    last = done;  // what the writer has left behind is read in any case
    const protocol::FlightRecord record = page.flight(0).read();
    for (const protocol::FlightEntry& entry : record.entries) {
      if (entry.group != entry.place || entry.call.sequence != entry.place ||
          !same_request(entry.call, numbered(entry.place)) ||
          entry.call.tag_view() != numbered(entry.place).tag_view()) {
        torn = describe(entry.call);
      }
      ++seen;
    }
  }
  writer.join();
  CHECK(torn.empty());
  CHECK(seen > 0);
}

TEST_CASE("a writer that is killed between any two stores leaves a record that can be read") {
  for (int round = 0; round < 20; ++round) {
    control::ControlPage page = control::ControlPage::anonymous(1);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      const itimerval soon{{0, 0}, {0, 500 + 137 * round}};
      ::setitimer(ITIMER_REAL, &soon, nullptr);
      for (std::uint64_t i = 1;; ++i) page.flight(0).enter_call(i, static_cast<std::uint32_t>(i), numbered(i));
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    const protocol::FlightRecord record = page.flight_records()[0];
    CHECK(record.entries.size() + (record.is_writing ? 1 : 0) >=
          std::min<std::size_t>(record.begun, control::FlightRing::entries_kept));
    for (const protocol::FlightEntry& entry : record.entries) CHECK(entry.call.sequence == entry.place);
  }
}

TEST_CASE("a flight record survives its document") {
  control::ControlPage page = three_in_a_case();
  come(page, 0, left_pair, 1);
  page.flight(1).enter_call(whole_world, 5,
                            {.sequence = 2,
                             .count = 7,
                             .factor = 0.5,
                             .root = 1,
                             .kind = CollectiveKind::broadcast,
                             .dtype = DType::bf16,
                             .op = ReduceOp::premul_sum});
  page.flight(1).end(State::given_up);
  page.flight(2).enter(What::agreement, 3, at(99));
  const protocol::FlightSnapshot written{.taken_ns = 123, .ranks = page.flight_records(), .begun_later = {2, 3, 5}};
  const nlohmann::ordered_json json = written;
  const auto read = json.get<protocol::FlightSnapshot>();
  CHECK(nlohmann::ordered_json(read) == json);
  CHECK(read.begun_later == written.begun_later);
  CHECK(read.ranks[0].case_begun == 4);
  CHECK(protocol::describe(*read.ranks[1].last_call(), read.ranks[1]) ==
        "broadcast #2 of 7 bf16 (premul_sum, factor 0.5) from root 1 in group world");
  CHECK(protocol::waits(read.ranks).size() == protocol::waits(written.ranks).size());

  auto of_old = json;  // when a record had its entries only
  for (auto& rank : of_old["ranks"]) rank.erase("case_begun");
  CHECK(of_old.get<protocol::FlightSnapshot>().ranks[0].case_begun == std::nullopt);
  CHECK(of_old.get<protocol::FlightSnapshot>().ranks[0].last_case() == 4);

  auto broken = json;
  broken["ranks"][1]["entries"].back()["kind"] = "gossip";
  CHECK_THROWS_WITH(broken.get<protocol::FlightSnapshot>(), Catch::Matchers::ContainsSubstring("gossip"));
}

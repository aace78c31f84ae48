// One sentence for every way in which a world can end early, from what its ranks were in the middle of.
#include "reports/explain/explanation.hpp"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <csignal>
#include <numeric>

#include "harness/control/control_page.hpp"
#include "harness/control/flight_ring.hpp"

namespace shardproof::reports {
namespace {

using How = protocol::Ending::How;
using What = protocol::FlightEntry::What;
using State = protocol::FlightEntry::State;

constexpr std::uint64_t world_group = 1, dp = 2, tp = 3;

control::Deadline at(double seconds) {
  return control::Deadline(std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
}

/// A world whose ranks write down what a test says that they do. Looked at 10 s after its clock began.
class Scene {
 public:
  explicit Scene(int ranks) : page_(control::ControlPage::anonymous(ranks)) {
    plan_.size = ranks;
    plan_.cases = {"a/one", "a/two"};
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    for (int rank = 0; rank < ranks; ++rank) {
      flight(rank).join_group(world_group, "world", all);
      endings_.push_back({.rank = rank, .how = How::stopped, .code = 0, .position = 1, .text = ""});
    }
  }

  control::FlightRing& flight(int rank) { return page_.flight(rank); }

  void begin(int position = 1) {
    for (int rank = 0; rank < plan_.size; ++rank)
      flight(rank).enter(What::case_begun, static_cast<std::uint64_t>(position), at(1));
  }
  void enter(int rank, std::uint64_t group, std::uint64_t sequence, CollectiveKind kind, double waits_since = 7) {
    flight(rank).enter_call(group, 2, {.sequence = sequence, .count = 4, .kind = kind, .dtype = DType::f32});
    flight(rank).meet();
    flight(rank).wait(at(waits_since));
  }
  void pass(int rank, std::uint64_t group, std::uint64_t sequence, CollectiveKind kind) {
    enter(rank, group, sequence, kind);
    flight(rank).end(State::left);
  }
  void end_body(int rank, double since = 6) {
    flight(rank).enter(What::body_ended, 1, at(since));
    flight(rank).enter(What::agreement, 4, at(since));
  }

  void died(int rank, int signal, bool is_cause = true) {
    end({.rank = rank,
         .how = How::signalled,
         .code = signal,
         .position = 1,
         .text = "",
         .last_words = "",
         .is_cause = is_cause});
  }
  void overran(int rank) {
    end({.rank = rank, .how = How::overran, .code = 0, .position = 1, .text = "took too long"});
  }
  void end(const protocol::Ending& ending) { endings_[static_cast<std::size_t>(ending.rank)] = ending; }

  void share_a_process() { plan_.fabric = protocol::thread_fabric; }

  void look() {
    flight_ = {.taken_ns = std::chrono::nanoseconds(at(10).time_since_epoch()).count(),
               .ranks = page_.flight_records(),
               .begun_later = {}};
  }
  void look_again() {
    for (const protocol::FlightRecord& record : page_.flight_records()) flight_.begun_later.push_back(record.begun);
  }
  std::string explained() {
    if (flight_.ranks.empty()) look();
    return explain(plan_, endings_, &flight_);
  }
  std::string standing() {
    look();
    return reports::waits_text(flight_);
  }
  std::string explained_without_flight() const { return explain(plan_, endings_, nullptr); }

 private:
  control::ControlPage page_;
  protocol::WorldPlan plan_;
  std::vector<protocol::Ending> endings_;
  protocol::FlightSnapshot flight_;
};

/// Two ranks, each in a call of a group in which the other does not come.
void wait_for_each_other(Scene& scene) {
  for (const int rank : {0, 1}) {
    scene.flight(rank).join_group(dp, "a", std::array{0, 1});
    scene.flight(rank).join_group(tp, "b", std::array{0, 1});
  }
  scene.begin();
  scene.enter(0, dp, 0, CollectiveKind::barrier);
  scene.enter(1, tp, 2, CollectiveKind::barrier);
  scene.overran(0);
  scene.overran(1);
}

TEST_CASE("a death is reported with its place, its last collective and the waiting ranks") {
  Scene scene(3);
  scene.begin();
  scene.enter(0, world_group, 0, CollectiveKind::barrier);
  scene.enter(2, world_group, 0, CollectiveKind::barrier);
  scene.died(1, SIGSEGV);
  CHECK(scene.explained() ==
        "rank 1 died by signal 11 (SIGSEGV) in a/two before its first collective; ranks 0, 2 waited for it in "
        "barrier #0 of 4 f32 in group world");
  CHECK(scene.explained_without_flight() == "rank 1 died by signal 11 (SIGSEGV) in a/two");
}

TEST_CASE("a death inside a collective, and after one") {
  Scene inside(2), after(2);
  for (Scene* scene : {&inside, &after}) {
    scene->begin();
    scene->pass(0, world_group, 0, CollectiveKind::all_reduce);
    scene->pass(1, world_group, 0, CollectiveKind::all_reduce);
    scene->died(1, SIGKILL);
  }
  inside.enter(1, world_group, 1, CollectiveKind::all_gather);
  CHECK(inside.explained() ==
        "rank 1 died by signal 9 (SIGKILL) in a/two inside all_gather #1 of 4 f32 in group world");
  CHECK(after.explained() == "rank 1 died by signal 9 (SIGKILL) in a/two after all_reduce #0 of 4 f32 in group world");
}

TEST_CASE("a rank that has made more calls than its record keeps is still reported with its case") {
  Scene scene(2);
  scene.begin();
  for (std::uint64_t i = 0; i < 2 * control::FlightRing::entries_kept; ++i)
    scene.pass(1, world_group, i, CollectiveKind::all_reduce);
  const auto killed = [&] {
    scene.end({.rank = 1,
               .how = How::signalled,
               .code = SIGKILL,
               .position = -1,
               .text = "",
               .last_words = "",
               .is_cause = true});
    scene.look();
    return scene.explained();
  };
  CHECK(killed() == "rank 1 died by signal 9 (SIGKILL) in a/two after all_reduce #63 of 4 f32 in group world");
  scene.end_body(1);
  CHECK(killed() ==
        "rank 1 died by signal 9 (SIGKILL) at the end of a/two after all_reduce #63 of 4 f32 in group world");
  scene.flight(1).end(State::left);
  scene.flight(1).enter(What::agreement, 5, at(8));
  CHECK(killed() == "rank 1 died by signal 9 (SIGKILL) after a/two after all_reduce #63 of 4 f32 in group world");
}

TEST_CASE("of several deaths the first is the cause, and the others are reported") {
  Scene scene(3);
  scene.begin();
  scene.died(0, SIGABRT, false);
  scene.end({.rank = 2, .how = How::exited, .code = 0, .position = 1, .text = "", .last_words = "", .is_cause = true});
  CHECK(scene.explained() ==
        "rank 2 exited with code 0 in a/two before its first collective; rank 0 died by signal 6 (SIGABRT) too");
}

TEST_CASE("a process that was all ranks dies of the one that ran, or of one of those that did") {
  Scene scene(3);
  scene.share_a_process();
  scene.begin();
  scene.enter(0, world_group, 0, CollectiveKind::barrier);
  scene.died(1, SIGSEGV);
  CHECK(scene.explained() ==
        "the process of all ranks died by signal 11 (SIGSEGV) while rank 1 was running, in a/two before its first "
        "collective; rank 0 waited for it in barrier #0 of 4 f32 in group world");
  scene.died(2, SIGSEGV);
  CHECK(scene.explained() ==
        "the process of all ranks died by signal 11 (SIGSEGV); one of these ranks is the cause: rank 1 in a/two "
        "before its first collective, rank 2 in a/two before its first collective");
}

TEST_CASE("a rank that never enters a collective is reported with the waiting ranks and its last call") {
  Scene scene(4);
  for (const int rank : {0, 2}) scene.flight(rank).join_group(dp, "dp", std::array{0, 2});
  for (const int rank : {1, 3})
    scene.flight(rank).join_group(tp, "dp", std::array{1, 3});  // another group of the same name
  scene.begin();
  for (const int rank : {0, 2}) scene.pass(rank, dp, 9, CollectiveKind::reduce_scatter);
  scene.enter(0, dp, 10, CollectiveKind::all_gather);
  for (const int rank : {1, 3}) scene.pass(rank, tp, 9, CollectiveKind::reduce_scatter);
  for (const int rank : {1, 3}) scene.enter(rank, world_group, 11, CollectiveKind::barrier, 8);
  scene.overran(2);
  CHECK(scene.explained() ==
        "rank 2 never entered all_gather #10 of 4 f32 in group dp (rank 0 has waited for 3.0 s), rank 2 never "
        "entered barrier #11 of 4 f32 in group world (ranks 1, 3 have waited for 2.0 s); it is in a/two after "
        "reduce_scatter #9 of 4 f32 in group dp");
}

TEST_CASE("a rank that gave up, or was released, still waited for the one that never came") {
  Scene scene(3);
  scene.begin();
  scene.enter(0, world_group, 0, CollectiveKind::barrier);
  scene.enter(2, world_group, 0, CollectiveKind::barrier);
  scene.flight(0).end(State::given_up);
  scene.flight(2).end(State::released);
  scene.end_body(0);
  scene.end_body(2);
  scene.overran(1);
  CHECK(scene.explained() ==
        "rank 1 never entered barrier #0 of 4 f32 in group world (ranks 0, 2 have waited for 3.0 s); it is in a/two "
        "before its first collective");
}

TEST_CASE("a rank that keeps running is reported as such, whether or not others wait at the end of the case") {
  Scene scene(2);
  scene.begin();
  scene.end_body(0);
  scene.overran(1);
  CHECK(scene.explained() ==
        "rank 1 never reached the end of the case (rank 0 has waited for 4.0 s); it is in a/two before its first "
        "collective");
  Scene both(2);
  both.begin();
  both.overran(0);
  both.overran(1);
  CHECK(both.explained() ==
        "rank 0 is in a/two before its first collective; rank 1 is in a/two before its first collective");
}

TEST_CASE("who goes on making calls is slow, not stuck") {
  Scene scene(1);
  scene.begin();
  scene.pass(0, world_group, 0, CollectiveKind::barrier);
  scene.overran(0);
  scene.look();
  scene.pass(0, world_group, 1, CollectiveKind::barrier);
  scene.pass(0, world_group, 2, CollectiveKind::barrier);
  scene.look_again();
  CHECK(scene.explained() ==
        "rank 0 is in a/two after barrier #0 of 4 f32 in group world; it has made progress since (2 more entries): "
        "slow, not stuck");
}

TEST_CASE("ranks that wait for each other at one moment and have moved at the next are slow, not stuck") {
  Scene scene(2);
  wait_for_each_other(scene);
  scene.look();
  for (const int rank : {0, 1}) scene.pass(rank, world_group, 9, CollectiveKind::barrier);
  scene.look_again();
  CHECK(scene.explained() ==
        "rank 0 never entered barrier #2 of 4 f32 in group b (rank 1 has waited for 3.0 s); it is in a/two inside "
        "barrier #0 of 4 f32 in group a; it has made progress since (1 more entries): slow, not stuck; rank 1 never "
        "entered barrier #0 of 4 f32 in group a (rank 0 has waited for 3.0 s); it is in a/two inside barrier #2 of "
        "4 f32 in group b; it has made progress since (1 more entries): slow, not stuck");
}

TEST_CASE("waits are reported for calls, for the end of a case and for the next case") {
  Scene scene(3);
  scene.begin();
  scene.enter(0, world_group, 0, CollectiveKind::barrier);
  scene.end_body(1);
  CHECK(scene.standing() ==
        "rank 1 waits at the end of the case for ranks 0, 2, rank 0 waits in barrier #0 of 4 f32 in group world for "
        "ranks 1, 2");
  Scene next(2);
  next.flight(0).enter(What::agreement, 1, at(3));
  CHECK(next.standing() == "rank 0 waits at the next case for rank 1");
}

TEST_CASE("ranks that wait for each other are reported as a deadlock") {
  Scene scene(2);
  wait_for_each_other(scene);
  CHECK(scene.explained() ==
        "every rank waits for another in a/two: rank 0 in barrier #0 of 4 f32 in group a for rank 1, rank 1 in "
        "barrier #2 of 4 f32 in group b for rank 0");
}

TEST_CASE("a rank that stops in a collective that all ranks have entered is reported") {
  Scene scene(2);
  scene.begin();
  for (const int rank : {0, 1}) scene.enter(rank, world_group, 5, CollectiveKind::all_gather);
  scene.flight(0).meet();
  scene.overran(1);
  CHECK(scene.explained() ==
        "rank 1 is in a/two inside all_gather #5 of 4 f32 in group world, which all ranks entered 3.0 s ago");
}

TEST_CASE("a rank that stays in a collective from which all others have been released waits for no rank") {
  Scene scene(3);
  scene.begin();
  for (const int rank : {0, 1}) scene.enter(rank, world_group, 0, CollectiveKind::barrier);
  scene.flight(0).end(State::given_up);
  scene.end_body(0);
  scene.end_body(2, 7);  // came too late for that barrier
  scene.overran(1);
  CHECK(scene.explained() ==
        "rank 1 never reached the end of the case (rank 2 has waited for 3.0 s); it is in a/two inside barrier #0 "
        "of 4 f32 in group world, which others have left");
}

TEST_CASE("a rank that enters a collective and then stops, before the others get its part, holds them up") {
  Scene scene(3);
  scene.begin();
  for (const int rank : {0, 1, 2}) scene.enter(rank, world_group, 0, CollectiveKind::barrier);
  scene.flight(0).end(State::given_up);
  scene.flight(2).end(State::released);
  scene.end_body(0);
  scene.end_body(2);
  for (const int rank : {0, 1, 2}) scene.overran(rank);
  CHECK(scene.explained() ==
        "rank 1 never reached the end of the case (ranks 0, 2 have waited for 4.0 s); it is in a/two inside barrier #0 "
        "of 4 f32 in group world, which others have left");
}

TEST_CASE("a process that does not end when its rank has left its world is reported") {
  Scene scene(2);
  scene.begin();
  scene.end_body(1);
  scene.flight(1).enter(What::left, 0, at(8));
  scene.overran(1);
  CHECK(scene.explained() == "rank 1 has left its world, and its process does not end");
}

TEST_CASE(
    "a rank that never joined is reported in its launcher's words; a world that no rank ended has no explanation") {
  Scene scene(2);
  scene.end({.rank = 1, .how = How::overran, .code = 0, .position = -1, .text = "did not join its world within 30 s"});
  CHECK(scene.explained() == "rank 1 did not join its world within 30 s");
  Scene well(2);
  well.begin();
  for (int rank = 0; rank < 2; ++rank)
    well.end({.rank = rank, .how = How::exited, .code = 0, .position = -1, .text = ""});
  CHECK(well.explained().empty());
}

TEST_CASE("a death at the end of a case, between two cases, and after the last one") {
  Scene scene(2);
  scene.begin(0);
  scene.flight(1).enter(What::body_ended, 0, at(2));
  const auto killed = [&](Scene& there) {
    there.end({.rank = 1,
               .how = How::signalled,
               .code = SIGKILL,
               .position = -1,
               .text = "",
               .last_words = "",
               .is_cause = true});
    there.look();
    return there.explained();
  };
  CHECK(killed(scene) == "rank 1 died by signal 9 (SIGKILL) at the end of a/one, which had no collective");
  for (std::uint64_t round : {2U, 3U}) {
    scene.flight(1).enter(What::agreement, round, at(3));
    scene.flight(1).end(State::left);
  }
  CHECK(killed(scene) == "rank 1 died by signal 9 (SIGKILL) after a/one, which had no collective");
  scene.flight(1).enter(What::left, 0, at(4));
  CHECK(killed(scene) == "rank 1 died by signal 9 (SIGKILL) after it had left its world");
  CHECK(scene.explained_without_flight() == "rank 1 died by signal 9 (SIGKILL) outside of its cases");
  Scene without_its_record(2);
  CHECK(killed(without_its_record) == "rank 1 died by signal 9 (SIGKILL) outside of its cases");  // the other is in one
  without_its_record.end({.rank = 0, .how = How::stopped, .code = 0, .position = -1, .text = ""});
  CHECK(killed(without_its_record) == "rank 1 died by signal 9 (SIGKILL) before its first case");
  without_its_record.flight(0).enter(What::case_begun, 0, at(1));
  CHECK(killed(without_its_record) == "rank 1 died by signal 9 (SIGKILL) outside of its cases");
}

}  // namespace
}  // namespace shardproof::reports

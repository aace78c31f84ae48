// Tests what the launcher does with a world, event by event, without a process.
#include "launcher/run/supervisor.hpp"

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <csignal>
#include <string>
#include <vector>

using namespace shardproof;
using namespace shardproof::launcher;
using namespace std::chrono_literals;

namespace {

control::Deadline time_at(std::chrono::milliseconds time) { return control::Deadline(time); }

/// One word for each action.
struct ActionText {
  std::string operator()(action::CheckRanks) const { return "check"; }
  std::string operator()(action::KeepFlightRecords keep) const { return keep.anew ? "flight anew" : "flight"; }
  std::string operator()(action::KeepLaterProgress) const { return "later"; }
  std::string operator()(action::DropFlightRecords) const { return "drop flight"; }
  std::string operator()(const action::CollectEvidence& collect) const {
    std::string text = "evidence";
    for (const int rank : collect.overdue) text += " " + std::to_string(rank);
    return text;
  }
  std::string operator()(action::StopEvidence) const { return "stop evidence"; }
  std::string operator()(action::KeepOutput keep) const { return "output " + std::to_string(keep.rank); }
  std::string operator()(const action::DoomWorld& doom) const {
    return "doom by " + std::to_string(doom.abort.culprit) + ": " + doom.abort.text;
  }
  std::string operator()(action::SignalRanks signal) const { return "signal " + std::to_string(signal.number); }
  std::string operator()(action::AbandonRanks) const { return "abandon"; }
};

using ActionTexts = std::vector<std::string>;

ActionTexts texts_of(const Actions& actions) {
  ActionTexts all;
  for (const Action& action : actions) all.push_back(std::visit(ActionText(), action));
  return all;
}

constexpr Exit code_exit(int code) { return {.signalled = false, .code = code}; }
constexpr Exit signal_exit(int number) { return {.signalled = true, .code = number}; }

RankView view_in_case(std::int64_t position) {
  return {.progress = {.pid = 7, .cases_ended = static_cast<std::uint64_t>(position), .position = position},
          .place = "in case " + std::to_string(position)};
}

RankView view_of_left() {
  return {.progress = {.pid = 7, .cases_ended = 3, .left = true}, .place = "after its last case"};
}

Overrun overrun_of(int rank, std::int64_t position, std::uint64_t cases_ended = 1) {
  return {.rank = rank,
          .text = "has been in its case for more than 1 s",
          .progress = {.pid = 7, .cases_ended = cases_ended, .position = position}};
}

/// A world of two ranks in which a deadline has passed at 1 s, and rank 1 is to blame.
Supervisor after_deadline() {
  Supervisor supervisor(2);
  supervisor.started(time_at(1s));
  supervisor.deadline_passed(time_at(1s));
  supervisor.ranks_checked({1}, {}, time_at(9s), time_at(1s));
  supervisor.evidence_progressed(std::nullopt, time_at(1100ms));
  supervisor.ranks_checked({1}, {overrun_of(1, 1)}, time_at(9s), time_at(1100ms));
  return supervisor;
}

}  // namespace

TEST_CASE("a world whose ranks leave in order ends without an action") {
  Supervisor supervisor(2);
  supervisor.started(time_at(1s));
  CHECK(supervisor.rank_ended(0, code_exit(0), view_of_left(), time_at(10ms)).empty());
  CHECK(supervisor.rank_ended(1, code_exit(0), view_of_left(), time_at(11ms)).empty());
  CHECK(supervisor.ended().empty());
  CHECK_FALSE(supervisor.is_ending());
  CHECK(supervisor.endings() == std::vector<protocol::Ending>{{.rank = 0, .how = protocol::Ending::How::exited},
                                                              {.rank = 1, .how = protocol::Ending::How::exited}});
  CHECK(supervisor.infrastructure_error("logs").empty());
}

TEST_CASE("the first rank that dies dooms its world, and the others are released") {
  Supervisor supervisor(2);
  CHECK(
      texts_of(supervisor.rank_ended(1, signal_exit(SIGKILL), view_in_case(2), time_at(5ms))) ==
      ActionTexts{"output 1", "stop evidence", "flight", "doom by 1: rank 1 ended with signal 9 (SIGKILL) in case 2"});
  CHECK(supervisor.phase() == Supervisor::Phase::leaving);
  CHECK(supervisor.deadline() == time_at(5ms + 404ms));
  supervisor.output_kept(1, "its words");
  CHECK(supervisor.rank_ended(0, code_exit(protocol::rank_released), view_of_left(), time_at(7ms)).empty());
  const std::vector<protocol::Ending> endings = supervisor.endings();
  CHECK(endings[0].how == protocol::Ending::How::stopped);
  CHECK(endings[0].text == "rank 1 ended with signal 9 (SIGKILL) in case 2");
  CHECK(endings[1].how == protocol::Ending::How::signalled);
  CHECK(endings[1].is_cause);
  CHECK(endings[1].last_words == "its words");
  CHECK(supervisor.doom_reason() == control::AbortReason::died);
}

TEST_CASE("ranks have their time to leave from their release on") {
  Supervisor supervisor(2);
  supervisor.rank_ended(1, code_exit(1), view_in_case(0), time_at(0ms));
  supervisor.released(time_at(1s));  // after a wait for flight records
  CHECK(supervisor.phase() == Supervisor::Phase::leaving);
  CHECK(supervisor.deadline() == time_at(1404ms));
}

TEST_CASE("ranks that do not leave are terminated, killed and abandoned") {
  Supervisor supervisor(2);
  supervisor.rank_ended(1, code_exit(1), view_in_case(0), time_at(0ms));
  CHECK(texts_of(supervisor.deadline_passed(time_at(404ms))) == ActionTexts{"signal 15"});
  CHECK(supervisor.phase() == Supervisor::Phase::terminating);
  CHECK(supervisor.deadline() == time_at(904ms));
  CHECK(texts_of(supervisor.deadline_passed(time_at(904ms))) == ActionTexts{"signal 9"});
  CHECK(supervisor.phase() == Supervisor::Phase::killing);
  CHECK(supervisor.deadline() == time_at(5904ms));
  CHECK(texts_of(supervisor.deadline_passed(time_at(5904ms))) == ActionTexts{"abandon"});
  supervisor.rank_abandoned(0, 123, 4);
  const protocol::Ending abandoned = supervisor.endings()[0];
  CHECK(abandoned.how == protocol::Ending::How::stopped);
  CHECK(abandoned.position == 4);
  CHECK(abandoned.text == "process 123 did not end within 5 s of SIGKILL and is left behind");
}

TEST_CASE("a rank that doomed the world itself is the cause, although another rank ended first") {
  Supervisor supervisor(2);
  CHECK(texts_of(supervisor.doom_seen({.culprit = 1, .reason = control::AbortReason::died, .text = "gave up"},
                                      time_at(1ms))) == ActionTexts{"stop evidence", "flight", "doom by 1: gave up"});
  CHECK(supervisor.doom_seen({.culprit = 0, .text = "again"}, time_at(2ms)).empty());
  CHECK(supervisor.rank_ended(0, code_exit(protocol::rank_released), view_in_case(1), time_at(2ms)).empty());
  CHECK(texts_of(supervisor.rank_ended(1, code_exit(protocol::rank_could_not_go_on), view_in_case(1), time_at(3ms))) ==
        ActionTexts{"output 1"});
  CHECK_FALSE(supervisor.endings()[0].is_cause);
  CHECK(supervisor.endings()[1].is_cause);
  CHECK(supervisor.doom_text() == "gave up");
}

TEST_CASE("a rank that fails after it has left ends no other rank") {
  Supervisor supervisor(2);
  CHECK(texts_of(supervisor.rank_ended(0, code_exit(1), view_of_left(), time_at(1ms))) ==
        ActionTexts{"output 0", "flight"});
  CHECK_FALSE(supervisor.is_ending());
  CHECK(supervisor.endings()[0].text == "rank 0 ended with exit code 1 after its last case");
}

TEST_CASE("an overdue rank is blamed after the second check") {
  Supervisor supervisor(2);
  supervisor.started(time_at(1s));
  CHECK(texts_of(supervisor.deadline_passed(time_at(1s))) == ActionTexts{"check"});
  CHECK(texts_of(supervisor.ranks_checked({1}, {}, time_at(9s), time_at(1s))) ==
        ActionTexts{"flight anew", "evidence 1"});
  CHECK(supervisor.phase() == Supervisor::Phase::collecting_evidence);
  // The evidence takes longer than the time between two checks.
  CHECK(supervisor.evidence_progressed(time_at(3s), time_at(2s)).empty());
  CHECK(supervisor.deadline() == time_at(3s));
  CHECK(supervisor.deadline_passed(time_at(3s)).empty());
  CHECK(texts_of(supervisor.evidence_progressed(std::nullopt, time_at(3s))) == ActionTexts{"stop evidence", "check"});
  CHECK(texts_of(supervisor.ranks_checked({1}, {overrun_of(1, 1)}, time_at(9s), time_at(3s))) ==
        ActionTexts{"later", "stop evidence", "flight", "doom by 1: rank 1 has been in its case for more than 1 s"});
  CHECK(supervisor.doom_reason() == control::AbortReason::deadline);
  CHECK(supervisor.infrastructure_error("logs").empty());
}

TEST_CASE("evidence that is complete at once waits for the second check") {
  Supervisor supervisor(2);
  supervisor.ranks_checked({0}, {}, time_at(9s), time_at(1s));
  CHECK(supervisor.evidence_progressed(std::nullopt, time_at(1s)).empty());
  CHECK(supervisor.deadline() == time_at(1100ms));
  CHECK(supervisor.evidence_progressed(std::nullopt, time_at(1099ms)).empty());
  CHECK(texts_of(supervisor.evidence_progressed(std::nullopt, time_at(1100ms))) ==
        ActionTexts{"stop evidence", "check"});
}

TEST_CASE("a rank that moves while evidence is collected goes on") {
  Supervisor supervisor(2);
  supervisor.ranks_checked({0}, {}, time_at(9s), time_at(1s));
  supervisor.evidence_progressed(std::nullopt, time_at(1100ms));
  CHECK(texts_of(supervisor.ranks_checked({}, {}, time_at(8s), time_at(1100ms))) == ActionTexts{"drop flight"});
  CHECK(supervisor.phase() == Supervisor::Phase::running);
  CHECK(supervisor.deadline() == time_at(8s));
  CHECK_FALSE(supervisor.is_ending());
}

TEST_CASE("a rank that dies while evidence is collected ends the collection") {
  Supervisor supervisor(2);
  supervisor.ranks_checked({0}, {}, time_at(9s), time_at(1s));
  CHECK(
      texts_of(supervisor.rank_ended(1, signal_exit(SIGSEGV), view_in_case(0), time_at(1050ms))) ==
      ActionTexts{"output 1", "stop evidence", "flight", "doom by 1: rank 1 ended with signal 11 (SIGSEGV) in case 0"});
  CHECK(supervisor.phase() == Supervisor::Phase::leaving);
}

TEST_CASE("several ranks to blame are all named, and no rank is the culprit") {
  Supervisor supervisor(3);
  supervisor.ranks_checked({0, 2}, {}, time_at(9s), time_at(1s));
  const ActionTexts done =
      texts_of(supervisor.ranks_checked({0, 2}, {overrun_of(0, -1, 0), overrun_of(2, 1)}, time_at(9s), time_at(2s)));
  CHECK(done.back() ==
        "doom by -1: rank 0 has been in its case for more than 1 s; rank 2 has been in its case for more than 1 s");
  // The first of them has begun no case.
  CHECK(supervisor.infrastructure_error("the/logs") ==
        "rank 0 has been in its case for more than 1 s; rank 2 has been in its case for more than 1 s\n(its output: "
        "the/logs)");
}

TEST_CASE("the ending after a deadline") {
  Supervisor supervisor = after_deadline();
  SECTION("the overdue rank had to be ended, and the other rank only waited") {
    supervisor.rank_ended(0, code_exit(protocol::rank_released), view_of_left(), time_at(1200ms));
    supervisor.deadline_passed(time_at(2s));
    CHECK(texts_of(supervisor.rank_ended(1, signal_exit(SIGTERM), view_in_case(1), time_at(2s))) ==
          ActionTexts{"output 1"});
    CHECK(supervisor.ended().empty());
    CHECK(supervisor.endings()[0].how == protocol::Ending::How::stopped);
    CHECK(supervisor.endings()[1].how == protocol::Ending::How::overran);
    CHECK(supervisor.endings()[1].text == "has been in its case for more than 1 s");
  }
  SECTION("all ranks left when they were released: the overdue rank is to blame, in its case at that time") {
    for (const int rank : {0, 1})
      supervisor.rank_ended(rank, code_exit(protocol::rank_released), {.progress = {.pid = 7}, .place = ""},
                            time_at(1200ms));
    CHECK(texts_of(supervisor.ended()) == ActionTexts{"output 1"});
    CHECK(supervisor.endings()[0].how == protocol::Ending::How::stopped);
    CHECK(supervisor.endings()[1].how == protocol::Ending::How::overran);
    CHECK(supervisor.endings()[1].position == 1);
  }
  SECTION("an overdue rank survives SIGKILL") {
    supervisor.rank_abandoned(1, 123, 1);
    CHECK(supervisor.endings()[1].how == protocol::Ending::How::overran);
  }
}

TEST_CASE("a rank noticed the deadline first: the ranks that were stopped are to blame") {
  Supervisor supervisor(2);
  supervisor.doom_seen({.culprit = 0, .reason = control::AbortReason::deadline, .text = "rank 1 is missing"},
                       time_at(1ms));
  supervisor.rank_ended(0, code_exit(protocol::rank_could_not_go_on), view_in_case(1), time_at(2ms));
  supervisor.deadline_passed(time_at(405ms));
  supervisor.rank_ended(1, signal_exit(SIGTERM), view_in_case(1), time_at(405ms));
  CHECK(texts_of(supervisor.ended()) == ActionTexts{"output 1"});
  CHECK(supervisor.endings()[0].how == protocol::Ending::How::exited);
  CHECK(supervisor.endings()[1].how == protocol::Ending::How::overran);
  CHECK(supervisor.endings()[1].text == "had to be killed: rank 1 is missing");
}

TEST_CASE("no rank is to blame for a world that has no room") {
  Supervisor supervisor(2);
  supervisor.doom_seen({.culprit = 0, .reason = control::AbortReason::no_room, .text = "rank 0 has no room"},
                       time_at(1s));
  for (const int rank : {0, 1})
    supervisor.rank_ended(rank, code_exit(protocol::rank_released), {.progress = {.pid = 7}, .place = ""}, time_at(1s));
  CHECK(supervisor.ended().empty());
  for (const protocol::Ending& ending : supervisor.endings()) CHECK(ending.how == protocol::Ending::How::interrupted);
  CHECK(supervisor.infrastructure_error("logs").empty());
}

TEST_CASE("a rank noticed the deadline first: ranks that leave when they are released are not to blame") {
  const auto end_with = [](const RankView& stopped) {
    Supervisor supervisor(3);
    supervisor.doom_seen({.culprit = 0, .reason = control::AbortReason::deadline, .text = "rank 2 is missing"},
                         time_at(1ms));
    supervisor.rank_ended(0, code_exit(protocol::rank_could_not_go_on), view_in_case(1), time_at(2ms));
    supervisor.rank_ended(1, code_exit(protocol::rank_released), {.progress = {.pid = 8, .cases_ended = 1}},
                          time_at(2ms));
    supervisor.deadline_passed(time_at(405ms));
    supervisor.rank_ended(2, signal_exit(SIGTERM), stopped, time_at(405ms));
    CHECK(texts_of(supervisor.ended()) == ActionTexts{"output 2"});
    CHECK(supervisor.endings()[1].how == protocol::Ending::How::stopped);
    CHECK(supervisor.endings()[2].how == protocol::Ending::How::overran);
    return supervisor.infrastructure_error("logs");
  };
  CHECK(end_with(view_in_case(1)).empty());
  // A rank that never reached its first case could not do its work.
  CHECK(end_with({.progress = {.pid = 9}}) ==
        "rank 2 had to be killed: rank 2 is missing and printed nothing\n"
        "(its output: logs)");
}

TEST_CASE("an interruption gives killed ranks the time to end that they have") {
  Supervisor supervisor(1);
  supervisor.interrupted("by the user", time_at(1ms));
  supervisor.interrupted("again", time_at(2ms));
  supervisor.deadline_passed(time_at(2ms));
  const auto deadline = supervisor.deadline();
  CHECK(deadline > time_at(1000ms));
  supervisor.interrupted("a third time", time_at(3ms));
  CHECK(supervisor.deadline() == deadline);
}

TEST_CASE("an interrupted world is doomed, and the second interruption gives no more time") {
  Supervisor supervisor(2);
  CHECK(texts_of(supervisor.interrupted("by the user", time_at(1ms))) ==
        ActionTexts{"stop evidence", "flight", "doom by -1: by the user"});
  CHECK(supervisor.deadline() == time_at(405ms));
  CHECK(supervisor.interrupted("again", time_at(2ms)).empty());
  CHECK(supervisor.deadline() == time_at(2ms));
  CHECK(texts_of(supervisor.deadline_passed(time_at(2ms))) == ActionTexts{"signal 9"});
  supervisor.rank_ended(0, signal_exit(SIGKILL), view_in_case(0), time_at(3ms));
  CHECK(supervisor.endings()[0].how == protocol::Ending::How::interrupted);
  CHECK(supervisor.is_interrupted());
}

TEST_CASE("ranks that could not be started are infrastructure errors") {
  Supervisor supervisor(3);
  CHECK(texts_of(supervisor.start_failed(1, "no memory", time_at(0ms))) ==
        ActionTexts{"stop evidence", "flight", "doom by 1: rank 1 of 3 could not be started: no memory"});
  CHECK(supervisor.infrastructure_error("logs") == "rank 1 of 3 could not be started: no memory");
  CHECK(supervisor.endings()[1].text == "no memory");
  CHECK(supervisor.endings()[2].how == protocol::Ending::How::not_started);
  CHECK(supervisor.endings()[2].text == "rank 1 could not be started");
}

TEST_CASE("an infrastructure error has the last words of the rank") {
  Supervisor supervisor(2);
  supervisor.rank_ended(0, code_exit(protocol::rank_could_not_join),
                        {.progress = {.pid = 7}, .place = "before its first case"}, time_at(1ms));
  CHECK(supervisor.infrastructure_error("logs") ==
        "rank 0 ended with exit code 3 before its first case and printed nothing\n(its output: logs)");
  supervisor.output_kept(0, "no such file");
  CHECK(supervisor.infrastructure_error("logs") ==
        "rank 0 ended with exit code 3 before its first case:\nno such file\n(its output: logs)");
}

TEST_CASE("the process of all ranks ends") {
  Supervisor supervisor(3);
  const std::vector<RankView> ranks{view_in_case(0), view_in_case(1), view_in_case(1)};
  SECTION("by the one rank that was running") {
    CHECK(texts_of(supervisor.process_ended(signal_exit(SIGSEGV), ranks, {1}, time_at(1ms))) ==
          ActionTexts{
              "output 1", "stop evidence", "flight",
              "doom by 1: the process of all ranks ended with signal 11 (SIGSEGV) while rank 1 was running, in case "
              "1"});
    CHECK(supervisor.endings()[0].how == protocol::Ending::How::stopped);
    CHECK(supervisor.endings()[1].how == protocol::Ending::How::signalled);
    CHECK(supervisor.endings()[1].is_cause);
  }
  SECTION("by one of several ranks that were running") {
    const ActionTexts done = texts_of(supervisor.process_ended(code_exit(1), ranks, {0, 2}, time_at(1ms)));
    CHECK(done.back() ==
          "doom by -1: the process of all ranks ended with exit code 1 while ranks 0, 2 were running, in case 0 and "
          "in case 1; one of these ranks is the cause");
    CHECK(supervisor.endings()[1].how == protocol::Ending::How::stopped);
    CHECK(supervisor.endings()[2].how == protocol::Ending::How::exited);
  }
  SECTION("while every rank waited") {
    const ActionTexts done = texts_of(supervisor.process_ended(code_exit(1), ranks, {}, time_at(1ms)));
    CHECK(done.back() ==
          "doom by -1: the process of all ranks ended with exit code 1 while every rank waited for others");
    for (const protocol::Ending& ending : supervisor.endings()) CHECK(ending.is_cause);
  }
  SECTION("after all ranks left") {
    CHECK(supervisor
              .process_ended(code_exit(0), {view_of_left(), view_of_left(), view_of_left()}, {0, 1, 2}, time_at(1ms))
              .empty());
    CHECK_FALSE(supervisor.is_ending());
  }
  SECTION("before any rank began") {
    const RankView absent{.progress = {}, .place = "before its first case"};
    const ActionTexts done =
        texts_of(supervisor.process_ended(code_exit(1), {absent, absent, absent}, {0, 1, 2}, time_at(1ms)));
    CHECK(done == ActionTexts{"output 0", "stop evidence", "flight",
                              "doom by 0: rank 0 ended with exit code 1 before its first case"});
    CHECK(supervisor.endings()[1].how == protocol::Ending::How::stopped);
  }
}

TEST_CASE("ranks that a command did not start end their world, with what the command printed") {
  Supervisor supervisor(2);
  supervisor.started(time_at(9s));
  CHECK(texts_of(supervisor.ranks_unstarted({0, 1}, "the command ended", "its last lines:\nno slots", time_at(1s))) ==
        ActionTexts{"stop evidence", "flight", "doom by -1: the command ended"});
  for (const protocol::Ending& ending : supervisor.endings()) {
    CHECK(ending.how == protocol::Ending::How::not_started);
    CHECK(ending.text == "the command ended");
  }
  CHECK(supervisor.infrastructure_error("logs") == "the command ended\nits last lines:\nno slots");
}

TEST_CASE("ranks that were not started when their run was interrupted were interrupted") {
  Supervisor supervisor(2);
  supervisor.started(time_at(9s));
  supervisor.interrupted("Ctrl-C", time_at(1s));
  CHECK(supervisor.ranks_unstarted({0, 1}, "the world ended", "", time_at(2s)).empty());
  CHECK(supervisor.endings()[1].how == protocol::Ending::How::interrupted);
  CHECK(supervisor.infrastructure_error("logs").empty());
}

TEST_CASE("the reason why another process ended a rank is in its ending") {
  Supervisor supervisor(1);
  RankView view = view_in_case(0);
  view.reason = "sent to its guard";
  supervisor.rank_ended(0, signal_exit(SIGTERM), view, time_at(1s));
  CHECK(supervisor.endings()[0].text == "rank 0 ended with signal 15 (SIGTERM, sent to its guard) in case 0");
}

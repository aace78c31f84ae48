// Which ending is reported for a rank, by how its process ended and what the launcher knew and did.
#include "launcher/run/classify_ending.hpp"

#include <catch2/catch_test_macros.hpp>
#include <csignal>
#include <vector>

using namespace shardproof;
using namespace shardproof::launcher;

namespace {

constexpr Exit code_of(int code) { return {.signalled = false, .code = code}; }
constexpr Exit signal_of(int number) { return {.signalled = true, .code = number}; }

const control::Progress never_joined{};
const control::Progress has_joined{.pid = 7};
const control::Progress in_third_case{.pid = 7, .cases_ended = 2, .position = 2};
const control::Progress between_cases{.pid = 7, .cases_ended = 2};
const control::Progress has_left{.pid = 7, .cases_ended = 3, .left = true};

struct EndingRow {
  const char* what;
  EndedRank ended;
  ClassifiedEnding expected;
};

ClassifiedEnding expect_stopped(std::int64_t position, protocol::Ending::How how = protocol::Ending::How::stopped) {
  return {.how = how, .consequence = Consequence::stopped, .position = position};
}

ClassifiedEnding expect_failed(protocol::Ending::How how, Consequence consequence, std::int64_t position,
                               bool is_infrastructure = false) {
  return {.how = how, .consequence = consequence, .position = position, .is_infrastructure = is_infrastructure};
}

const std::vector<EndingRow> by_itself{
    {"it left in order", {.exit = code_of(0), .progress = has_left}, {.how = protocol::Ending::How::exited}},
    {"its guard was asked to end it, because of another rank",
     {.exit = signal_of(SIGTERM), .progress = in_third_case, .is_doomed = true, .was_asked = true},
     expect_stopped(2)},
    {"its guard was asked to end it, before any other rank ended",
     {.exit = signal_of(SIGTERM), .progress = in_third_case, .was_asked = true},
     expect_failed(protocol::Ending::How::signalled, Consequence::cause, 2)},
    {"it left in order while its world was ending",
     {.exit = code_of(0), .progress = has_left, .is_doomed = true},
     {.how = protocol::Ending::How::exited}},
    {"it left in order although the launcher terminated it",
     {.exit = code_of(0), .progress = has_left, .measure = Measure::terminated, .is_doomed = true, .is_overdue = true},
     {.how = protocol::Ending::How::exited}},
    {"exit code 0 in a case",
     {.exit = code_of(0), .progress = in_third_case},
     expect_failed(protocol::Ending::How::exited, Consequence::cause, 2)},
    {"exit code 0 between cases",
     {.exit = code_of(0), .progress = between_cases},
     expect_failed(protocol::Ending::How::exited, Consequence::cause, -1)},
    {"exit code 3 in a case",
     {.exit = code_of(3), .progress = in_third_case},
     expect_failed(protocol::Ending::How::exited, Consequence::cause, 2)},
    {"a signal in a case",
     {.exit = signal_of(SIGSEGV), .progress = in_third_case},
     expect_failed(protocol::Ending::How::signalled, Consequence::cause, 2)},
    {"a signal before it joined",
     {.exit = signal_of(SIGSEGV), .progress = never_joined},
     expect_failed(protocol::Ending::How::signalled, Consequence::cause, -1)},
    {"an exit code after it left",
     {.exit = code_of(1), .progress = has_left},
     expect_failed(protocol::Ending::How::exited, Consequence::late, -1)},
    {"a signal after it left",
     {.exit = signal_of(SIGABRT), .progress = has_left},
     expect_failed(protocol::Ending::How::signalled, Consequence::late, -1)},
    {"it could not join",
     {.exit = code_of(protocol::rank_could_not_join), .progress = has_joined},
     expect_failed(protocol::Ending::How::exited, Consequence::cause, -1, true)},
    {"it rejected its arguments between cases",
     {.exit = code_of(protocol::rank_usage), .progress = between_cases},
     expect_failed(protocol::Ending::How::exited, Consequence::cause, -1, true)},
    {"the code of a released rank, before its first case and without a world that ends",
     {.exit = code_of(protocol::rank_released), .progress = has_joined},
     expect_failed(protocol::Ending::How::exited, Consequence::cause, -1, true)},
    {"the code of a released rank after it left",
     {.exit = code_of(protocol::rank_released), .progress = has_left},
     expect_failed(protocol::Ending::How::exited, Consequence::late, -1)},
    {"any exit code before its first case",
     {.exit = code_of(1), .progress = has_joined},
     expect_failed(protocol::Ending::How::exited, Consequence::cause, -1, true)},
    {"SIGKILL from another sender",
     {.exit = signal_of(SIGKILL), .progress = in_third_case},
     expect_failed(protocol::Ending::How::signalled, Consequence::cause, 2)},
};

const std::vector<EndingRow> in_an_ending_world{
    {"it reports that it was released",
     {.exit = code_of(protocol::rank_released), .progress = between_cases, .is_doomed = true},
     expect_stopped(-1)},
    {"it reports in a case that it was released",
     {.exit = code_of(protocol::rank_released), .progress = in_third_case},
     expect_failed(protocol::Ending::How::exited, Consequence::cause, 2)},
    {"an exit code", {.exit = code_of(1), .progress = in_third_case, .is_doomed = true}, expect_stopped(2)},
    {"an exit code after it left", {.exit = code_of(1), .progress = has_left, .is_doomed = true}, expect_stopped(-1)},
    {"an exit code in an interrupted run",
     {.exit = code_of(1), .progress = in_third_case, .is_doomed = true, .is_interrupted = true},
     expect_stopped(2, protocol::Ending::How::interrupted)},
    {"a signal of its own",
     {.exit = signal_of(SIGSEGV), .progress = in_third_case, .is_doomed = true},
     expect_failed(protocol::Ending::How::signalled, Consequence::follows, 2)},
    {"an exit code of the rank that doomed the world",
     {.exit = code_of(5), .progress = between_cases, .is_doomed = true, .doomed_by_rank = true},
     expect_failed(protocol::Ending::How::exited, Consequence::cause, -1)},
    {"a signal of the rank that doomed the world",
     {.exit = signal_of(SIGABRT), .progress = in_third_case, .is_doomed = true, .doomed_by_rank = true},
     expect_failed(protocol::Ending::How::signalled, Consequence::cause, 2)},
};

const std::vector<EndingRow> after_a_measure{
    {"the launcher's SIGTERM",
     {.exit = signal_of(SIGTERM), .progress = in_third_case, .measure = Measure::terminated, .is_doomed = true},
     expect_stopped(2)},
    {"the launcher's SIGKILL",
     {.exit = signal_of(SIGKILL), .progress = in_third_case, .measure = Measure::killed, .is_doomed = true},
     expect_stopped(2)},
    {"a late effect of SIGTERM",
     {.exit = signal_of(SIGTERM), .progress = in_third_case, .measure = Measure::killed, .is_doomed = true},
     expect_stopped(2)},
    {"the launcher's SIGKILL in an interrupted run",
     {.exit = signal_of(SIGKILL),
      .progress = in_third_case,
      .measure = Measure::killed,
      .is_doomed = true,
      .is_interrupted = true},
     expect_stopped(2, protocol::Ending::How::interrupted)},
    {"SIGKILL from another sender, after SIGTERM",
     {.exit = signal_of(SIGKILL), .progress = in_third_case, .measure = Measure::terminated, .is_doomed = true},
     expect_failed(protocol::Ending::How::signalled, Consequence::follows, 2)},
    {"SIGTERM from another sender, before any measure",
     {.exit = signal_of(SIGTERM), .progress = in_third_case, .is_doomed = true, .is_overdue = true},
     expect_failed(protocol::Ending::How::signalled, Consequence::follows, 2)},
    {"an overdue rank ends by SIGTERM",
     {.exit = signal_of(SIGTERM),
      .progress = in_third_case,
      .measure = Measure::terminated,
      .is_doomed = true,
      .is_overdue = true},
     expect_failed(protocol::Ending::How::overran, Consequence::overran, 2)},
    {"an overdue rank ends by SIGKILL, in an interrupted run",
     {.exit = signal_of(SIGKILL),
      .progress = in_third_case,
      .measure = Measure::killed,
      .is_doomed = true,
      .is_overdue = true,
      .is_interrupted = true},
     expect_failed(protocol::Ending::How::overran, Consequence::overran, 2)},
    {"an overdue rank handles SIGTERM",
     {.exit = code_of(1),
      .progress = between_cases,
      .measure = Measure::terminated,
      .is_doomed = true,
      .is_overdue = true},
     expect_failed(protocol::Ending::How::overran, Consequence::overran, -1)},
    {"an overdue rank crashes after SIGTERM",
     {.exit = signal_of(SIGSEGV),
      .progress = in_third_case,
      .measure = Measure::terminated,
      .is_doomed = true,
      .is_overdue = true},
     expect_failed(protocol::Ending::How::signalled, Consequence::follows, 2)},
    {"an overdue rank leaves when it is released",
     {.exit = code_of(protocol::rank_released), .progress = between_cases, .is_doomed = true, .is_overdue = true},
     expect_stopped(-1)},
};

void check_rows(const std::vector<EndingRow>& rows) {
  for (const EndingRow& row : rows) {
    INFO(row.what);
    CHECK(classify_ending(row.ended) == row.expected);
  }
}

}  // namespace

TEST_CASE("the ending of a rank that ends by itself") { check_rows(by_itself); }

TEST_CASE("the ending of a rank while its world is ending") { check_rows(in_an_ending_world); }

TEST_CASE("the ending of a rank after the launcher's measures") { check_rows(after_a_measure); }

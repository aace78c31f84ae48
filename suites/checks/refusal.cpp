#include "suites/checks/refusal.hpp"

#include <algorithm>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "harness/base/digest.hpp"
#include "harness/fabric/group.hpp"
#include "harness/player/play.hpp"
#include "suites/checks/last_module.hpp"

namespace shardproof::suites {

namespace {

void check_said_by_all(Rank& rank, const std::string& text) {
  Tensor mine = Tensor::host(DType::i64, {1});
  mine.values<std::int64_t>()[0] = static_cast<std::int64_t>(base::digest(text));
  const Tensor all = rank.world().all_gather(mine);
  for (const std::int64_t other : all.values<std::int64_t>()) CHECK(other == mine.values<std::int64_t>()[0]);
}

// The reason without its traceback, because a traceback may contain any word.
std::string said(const player::SubjectError& refused) {
  return refused.reason().substr(0, refused.reason().find("\nTraceback (most recent call last):"));
}

}  // namespace

std::optional<player::SubjectError> refusal(Rank& rank, const Scenario& scenario) {
  try {
    play(rank, with_last_module(rank, scenario));
  } catch (const player::SubjectError& error) {
    return error;
  }
  return std::nullopt;
}

Run play_accepted(Rank& rank, const Scenario& scenario) {
  try {
    return play(rank, with_last_module(rank, scenario));
  } catch (const player::SubjectError& error) {
    FAIL("the engine must accept this scenario, but it refuses: " << error.on_any_rank());
    throw;
  }
}

namespace {

void check_refused_with(Rank& rank, const Scenario& scenario, const std::string& call,
                        const std::vector<std::string>& culprits, const std::vector<CallStatus>& statuses) {
  std::optional<player::SubjectError> refused;
  try {
    refused = refusal(rank, scenario);
  } catch (const Mismatch& mismatch) {
    FAIL("the engine must refuse this scenario, but ranks issue different collectives: " << mismatch.what());
  }
  REQUIRE(refused);
  CAPTURE(refused->reason());
  const std::string reason = said(*refused);
  CHECK(refused->call() == call);
  if (std::ranges::find(statuses, refused->status()) == statuses.end())
    FAIL_CHECK("the engine must not refuse with the status \"" << to_string(refused->status()) << "\"");
  for (const std::string& culprit : culprits) CHECK_THAT(reason, Catch::Matchers::ContainsSubstring(culprit));
  check_said_by_all(rank, reason);
}

}  // namespace

void check_refused(Rank& rank, const Scenario& scenario, const std::string& call,
                   const std::vector<std::string>& culprits) {
  check_refused_with(rank, scenario, call, culprits, {CallStatus::failed});
}

void check_refused_or_unsupported(Rank& rank, const Scenario& scenario, const std::string& call,
                                  const std::vector<std::string>& culprits) {
  check_refused_with(rank, scenario, call, culprits, {CallStatus::failed, CallStatus::unsupported});
}

}  // namespace shardproof::suites

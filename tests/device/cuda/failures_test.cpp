// Every call of the backend to CUDA, cuBLAS, NCCL and CUPTI fails once, on one rank of two that train together. After
// any failure, no rank waits for its deadline, and the rank reports what failed and where. The next scenario on the
// same GPUs has its usual results.
#include <fmt/format.h>
#include <array>
#include <catch2/catch_test_macros.hpp>

#include "fixtures/engines/reference.hpp"
#include "harness/player/player.hpp"
#include "harness/scenario/builder.hpp"
#include "tests/device/cuda/planted.hpp"
#include "tests/device/cuda/rank_of_gpus.hpp"

using namespace shardproof;
using device::cuda::cpu::Planted;
using shardproof::testing::Side;

namespace {

/// Trains on parts of the world, so that communicators are split, too.
Scenario training() {
  Scenario scenario = sleeping_stack(2).forward(std::chrono::milliseconds(2)).collectives(std::chrono::milliseconds(1));
  scenario.plan.mesh = {.shape = {1, 2}, .names = {"replicate", "shard"}};
  scenario.script.segments = {{.iterations = 2,
                               .body = {{ActionKind::forward},
                                        {ActionKind::backward},
                                        {ActionKind::step},
                                        {ActionKind::capture},
                                        {ActionKind::zero_grad}}}};
  return scenario;
}

std::string losses(const Run& run) {
  std::string text;
  for (const Capture& captured : run.captures()) text += fmt::format("{} ", captured.loss);
  return text;
}

/// One rank of a world of GPUs.
class Player {
 public:
  Player(Side& side, std::shared_ptr<fabric::Boards> boards)
      : side_(side),
        gpus_(side, device::cuda::cpu::fragile_vendor(), std::move(boards), std::chrono::seconds(20),
              std::chrono::seconds(5), true) {}

  std::string play() {
    const auto platform = gpus_.world.make(scenario_.costs, scenario_.device);
    return losses(player::play(scenario_, engine_, *platform, side_.rank));
  }

  /// The error that the rank reports when it plays. A rank that fails ends the case for the other rank, as under a
  /// launcher.
  std::string attempt() {
    try {
      play();
      return gpus_.world.complaint();
    } catch (const std::exception& error) {
      gpus_.world.complaint();  // a consequence
      side_.control.raise_abort(side_.epoch.load(),
                                {.culprit = side_.rank, .reason = control::AbortReason::error, .text = error.what()});
      return error.what();
    }
  }
  bool is_lost() { return gpus_.world.gpu().is_lost(); }

 private:
  Side& side_;
  const Scenario scenario_ = training();
  engines::Reference engine_;
  device::cuda::RankOfGpus gpus_;
};

/// How often it is called depends on how long things take.
bool is_polled(const std::string& function) {
  return function == "event_query" || function == "event_synchronize" || function == "comm_get_async_error";
}

/// Nothing depends on it any more: a failure there changes no result, and may go untold.
bool is_only_given_back(const std::string& function) {
  return function == "comm_finalize" || function == "comm_destroy" || function == "stream_destroy" ||
         function == "event_destroy" || function == "free_async";
}

/// The first, the last and some between: of thousands of launches not each one is another place.
std::vector<int> chosen(int calls) {
  std::vector<int> numbers;
  for (int i = 1; i <= calls; i += std::max(1, i / 2)) numbers.push_back(i);
  if (numbers.back() != calls) numbers.push_back(calls);
  return numbers;
}

}  // namespace

TEST_CASE("every call that fails is reported by name and place, and the next scenario succeeds", "[long]") {
  const int failing = 1;
  const auto boards = std::make_shared<fabric::SharedBoards>(fabric::shm::make_thread_memory());
  std::vector<Planted> plans;  // made by the failing rank, read by both after they have met
  std::array<std::vector<std::string>, 2> said;
  const auto failures = testing::run_threads(2, [&](Side& side) {
    Player player(side, boards);
    const std::string expected = player.play();
    testing::expect(!expected.empty(), "the scenario captures nothing");
    side.next_case();
    device::cuda::cpu::plant({});
    player.play();
    if (side.rank == failing) {
      for (const auto& [function, count] : device::cuda::cpu::calls()) {
        for (const int call : is_polled(function) ? std::vector<int>{1, 2, 7} : chosen(count))
          plans.push_back({function, call, 77});
      }
    }
    side.next_case();

    for (const Planted& plan : plans) {
      const std::string what = fmt::format("{} call {}", plan.function, plan.call);
      if (side.rank == failing) device::cuda::cpu::plant(plan);
      const std::string text = player.attempt();
      if (side.rank == failing) {
        testing::expect(device::cuda::cpu::has_failed() || is_polled(plan.function), what + " was not reached");
        const bool is_reported = text.find("status 77") != std::string::npos;
        testing::expect(is_reported || !device::cuda::cpu::has_failed() || is_only_given_back(plan.function),
                        what + " is not told: " + text);
      }
      device::cuda::cpu::plant({});
      said[static_cast<std::size_t>(side.rank)].push_back(what + ": " + text);
      testing::expect(!player.is_lost(), what + ": the GPU is lost: " + text);
      side.next_case();
      const std::string again = player.attempt();
      testing::expect(again.empty(), what + ", the next scenario: " + again);
      side.next_case();
      testing::expect(player.play() == expected, what + ": the next scenario has other results");
      side.next_case();
    }
  });
  for (const std::string& failure : failures) {
    INFO(failure);
    CHECK(failure.empty());
  }
  for (const auto& texts : said) {
    for (const std::string& text : texts) {
      INFO(text);
      CHECK(text.find("has not ended") == std::string::npos);  // a deadline
      CHECK(text.find("has not finished") == std::string::npos);
    }
  }
  CHECK(plans.size() > 60);
}

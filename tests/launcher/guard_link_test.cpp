#include "launcher/run/guard_link.hpp"

#include <signal.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/run/foreign_ranks.hpp"

using namespace shardproof;
using namespace shardproof::launcher;
using namespace std::chrono_literals;
using control::link::Acceptor;
using control::link::Hub;

namespace {

/// A hub, and the guards that have come to it.
struct Launcher {
  Hub hub{{.core = {.world_size = 4}, .secret = "key"}};
  std::vector<GuardLink> links;

  void await_guards(std::size_t count) {
    while (links.size() < count) {
      hub.handle_events();
      for (Acceptor::Arrival& guest : hub.take_guests()) links.emplace_back(std::move(guest));
    }
  }
};

template <class Message>
Message next(GuardLink& link) {
  while (true) {
    if (const auto message = link.receive()) return message->get<Message>();
    REQUIRE_FALSE(link.is_closed());
  }
}

bool ends(GuardLink& link) {
  while (!link.is_closed()) {
    if (link.receive()) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("guards and their launcher exchange messages, and see each other's end") {
  Launcher launcher;
  const GuardReport joined{.what = GuardReport::What::joined,
                           .rank = 3,
                           .process = 17,
                           .host = {.name = "n1", .boot = "b", .memory = "0:25"}};
  const GuardReport ended{.what = GuardReport::What::ended,
                          .rank = 3,
                          .end = protocol::RankEnd{.rank = 3, .signalled = true, .code = SIGSEGV, .last_words = "oh"}};
  protocol::GpuListing listing{.backend = "some CUDA", .nccl = 22809};
  listing.gpus.emplace_back().uuid = "GPU-a0";
  const GuardReport gpus{.what = GuardReport::What::gpus, .rank = 3, .gpus = listing};
  const GuardRequest list_gpus{.what = GuardRequest::What::list_gpus};
  const GuardRequest lead{.what = GuardRequest::What::lead, .ranks = {2, 3}, .text = "4 ranks share 2 GPUs"};
  const GuardRequest start{.what = GuardRequest::What::start,
                           .rendezvous = "/dev/shm/x",
                           .variables = {{"CUDA_VISIBLE_DEVICES", "GPU-a0"}, {"NCCL_ALGO", "Ring"}}};
  const GuardRequest leave{.what = GuardRequest::What::leave};
  std::optional<GuardRequest> first, second, third, fourth;
  {
    std::jthread guard([&] {
      GuardLink link = GuardLink::connect(launcher.hub.addresses(), "key", 20s);
      link.send(joined);
      link.send(gpus);
      link.send(ended);
      link.send(GuardReport{.what = GuardReport::What::leftover, .rank = 3, .text = std::string(9000, 'a')});
      const auto take = [&](std::optional<GuardRequest>& into) {
        while (!into && !link.is_closed()) {
          if (const auto message = link.receive()) into = message->get<GuardRequest>();
        }
      };
      take(first);
      take(second);
      take(third);
      take(fourth);
    });
    launcher.await_guards(1);
    GuardLink& link = launcher.links.front();
    CHECK(next<GuardReport>(link) == joined);
    CHECK(next<GuardReport>(link) == gpus);
    CHECK(next<GuardReport>(link) == ended);
    CHECK(next<GuardReport>(link).text == std::string(4096, 'a'));
    for (const GuardRequest& request : {list_gpus, lead, start, leave}) link.send(request);
    CHECK(ends(link));
  }
  CHECK(first == list_gpus);
  CHECK(second == lead);
  CHECK(third == start);
  CHECK(fourth == leave);
}

TEST_CASE("a guard without the key reaches no launcher") {
  Launcher launcher;
  std::string why;
  {
    std::atomic<bool> is_over = false;
    std::jthread guard([&] {
      try {
        GuardLink::connect(launcher.hub.addresses(), "another key", 500ms);
      } catch (const std::runtime_error& error) {
        why = error.what();
      }
      is_over = true;
    });
    while (!is_over) launcher.hub.handle_events();
  }
  CHECK(launcher.hub.take_guests().empty());
  CHECK_THAT(why, Catch::Matchers::ContainsSubstring("it may have another secret"));
}

TEST_CASE("the number of ranks replaces its word in the command, wherever that is") {
  CHECK(launcher_command("mpirun -n {ranks}", 12) == "mpirun -n 12");
  CHECK(launcher_command("srun -n{ranks} -N {ranks}", 2) == "srun -n2 -N 2");
  CHECK(launcher_command("srun -n 4", 2) == "srun -n 4");
}

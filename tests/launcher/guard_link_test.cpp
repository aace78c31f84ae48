#include "launcher/run/guard_link.hpp"

#include <signal.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "launcher/run/foreign_ranks.hpp"
#include "tests/launcher/temporary.hpp"

using namespace shardproof::launcher;
using shardproof::launcher::testing::TemporaryDirectory;

TEST_CASE("guards and their launcher exchange messages, and see each other's end") {
  TemporaryDirectory directory;
  CHECK_THROWS_AS(GuardLink::connect(directory.path()), std::system_error);
  // The path of a socket has 107 bytes at most.
  const std::filesystem::path place = directory / std::string(200, 'x');
  std::filesystem::create_directory(place);
  GuardListener listener(place);
  CHECK_FALSE(listener.accept().has_value());

  GuardLink guard = GuardLink::connect(place);
  auto launcher = listener.accept();
  REQUIRE(launcher.has_value());
  CHECK_FALSE(launcher->receive().has_value());
  CHECK_FALSE(launcher->is_closed());

  const GuardReport refusal{.what = GuardReport::What::refused, .rank = 3, .process = 17, .text = "no"};
  guard.send(refusal);
  guard.send(GuardReport{.what = GuardReport::What::leftover, .rank = 3, .process = 0, .text = std::string(9000, 'a')});
  CHECK(launcher->receive()->get<GuardReport>() == refusal);
  CHECK(launcher->receive()->get<GuardReport>().text == std::string(4096, 'a'));

  const GuardRequest request{.what = GuardRequest::What::signal, .signal = SIGTERM};
  launcher->send(request);
  launcher->end_sending();
  CHECK(guard.receive()->get<GuardRequest>() == request);
  CHECK_FALSE(guard.receive().has_value());
  CHECK(guard.is_closed());
  CHECK_FALSE(launcher->is_closed());
  guard.send(GuardReport{.what = GuardReport::What::started, .rank = 3, .process = 9, .text = {}});
  CHECK(launcher->receive()->get<GuardReport>().process == 9);
  {
    const GuardLink ends = std::move(guard);
  }
  CHECK_FALSE(launcher->receive().has_value());
  CHECK(launcher->is_closed());
}

TEST_CASE("the number of ranks replaces its word in the command, wherever that is") {
  CHECK(launcher_command("mpirun -n {ranks}", 12) == "mpirun -n 12");
  CHECK(launcher_command("srun -n{ranks} -N {ranks}", 2) == "srun -n2 -N 2");
  CHECK(launcher_command("srun -n 4", 2) == "srun -n 4");
}

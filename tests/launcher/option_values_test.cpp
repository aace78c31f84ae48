// The meaning of options, and the errors for values without a meaning.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "launcher/commands/option_values.hpp"
#include "tests/launcher/refusal.hpp"

using namespace shardproof::launcher;
using namespace shardproof::launcher::testing;
using namespace std::chrono_literals;

namespace {

std::string refused_seed(const std::string& text) {
  return refusal([&] { whole_number("--seed", text, 0, ~std::uint64_t{0}); });
}

std::string refused_sizes(const std::string& text) {
  return refusal([&] { world_sizes(std::vector<std::string>{text}); });
}

}  // namespace

TEST_CASE("numbers are decimal, whatever they begin with") {
  CHECK(whole_number("--repeat", "010", 1, 1000) == 10);
  CHECK(whole_number("--seed", "18446744073709551615", 0, ~std::uint64_t{0}) == ~std::uint64_t{0});
}

TEST_CASE("an error for an invalid number repeats it, with the range") {
  for (const char* text : {"abc", "-1", "18446744073709551616", "0x10", "1.5", " 1", "1 ", "+1"})
    CHECK(refused_seed(text) == "--seed " + std::string(text) + ": a whole number from 0 to 18446744073709551615");
  CHECK(refused_seed("") == "--seed '': a whole number from 0 to 18446744073709551615");
  CHECK(refusal([] { whole_number("--repeat", "0", 1, 1000); }) == "--repeat 0: a whole number from 1 to 1000");
  CHECK(refusal([] { whole_number("--repeat", "1001", 1, 1000); }) == "--repeat 1001: a whole number from 1 to 1000");
}

TEST_CASE("GPUs are given as a number, or by index or uuid") {
  const auto refused = [](const std::string& text) { return refusal([&] { gpu_choice(text); }); };
  CHECK(gpu_choice("4").count == 4);
  CHECK(gpu_choice("4").names.empty());
  CHECK(gpu_choice("0,2").names == std::vector<std::string>{"0", "2"});
  CHECK(gpu_choice("2,").names == std::vector<std::string>{"2"});
  CHECK(gpu_choice("GPU-8a1f").names == std::vector<std::string>{"GPU-8a1f"});
  CHECK_FALSE(gpu_choice("GPU-8a1f,1").count);
  for (const char* text : {"0", "-1", ",", ",2", "1,,2", "1,2,,", "1,-2"}) {
    CHECK(refused(text) ==
          "--gpus " + std::string(text) +
              ": how many, as 4, or which, as 0,2 or GPU-8a1f by their uuids; the one with index 2 alone is `2,`");
  }
  CHECK(refused("").starts_with("--gpus '': how many"));
  for (const char* text : {"2147483648", "99999999999999999999999"})
    CHECK(refused(text) == "--gpus " + std::string(text) + ": no machine has so many");
}

TEST_CASE("world sizes are given together or one by one") {
  CHECK(world_sizes(std::vector<std::string>{"2,4", "8"}) == std::vector{2, 4, 8});
  CHECK(world_sizes({}).empty());
  for (const char* text : {"2,,3", ",", "2,", ",2", "abc", "", "0", "1025", "-1", "2 3"}) {
    INFO(text);
    CHECK(refused_sizes(text).ends_with(": a world has 1 to 1024 ranks; several sizes are given as 2,4"));
  }
}

TEST_CASE("names are given together or one by one") {
  CHECK(listed("--require", std::vector<std::string>{"A-1,A-2", "B-1"}) ==
        std::vector<std::string>{"A-1", "A-2", "B-1"});
  CHECK(listed("--require", {}).empty());
  for (const char* text : {"", ",", "A-1,", ",A-1", "A-1,,A-2"}) {
    INFO(text);
    CHECK(
        refusal([&] { listed("--require", std::vector<std::string>{text}); }).ends_with(": a name, or several as A,B"));
  }
}

TEST_CASE("a time is at least a millisecond, and at most 1000000 seconds") {
  CHECK(timeout("60") == 60s);
  CHECK(timeout("0.25") == 250ms);
  CHECK(timeout("1e3") == 1000s);
  for (const char* text : {"0", "-1", "nan", "inf", "1e7", "5s", ""}) {
    INFO(text);
    CHECK(refusal([&] { timeout(text); }).ends_with(": a number of seconds from 0.001 to 1000000"));
  }
}

TEST_CASE("a word that does not exist is answered with those that do") {
  CHECK(order("random") == Order::random);
  CHECK(color_when("never") == ColorWhen::never);
  CHECK(scheduler("free") == shardproof::protocol::Scheduler::free);
  CHECK(refusal([] { order("sideways"); }) == "--order: unknown value 'sideways'; known: listed, random");
  CHECK(refusal([] { scheduler("lucky"); }) == "--scheduler: unknown value 'lucky'; known: seeded, free");
  CHECK(refusal([] { color_when("pink"); }) == "--color: unknown value 'pink'; known: auto, always, never");
}

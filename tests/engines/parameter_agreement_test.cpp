// Ranks whose parameters differ name the parameter and the ranks.
#include "fixtures/engines/replicate/parameter_agreement.hpp"

#include <catch2/catch_test_macros.hpp>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/device/sim/sim_device.hpp"
#include "tests/engines/thread_ranks.hpp"

namespace shardproof::engines {

namespace {

// Rank 1's parameters are changed. Empty: ranks agree.
void check_says(const std::function<void(std::vector<Parameter>&)>& change, const std::string& text) {
  constexpr int world = 3;
  std::vector<std::string> said(world);
  on_thread_ranks(world, [&](int rank, Group& group) {
    device::SimDevice device({}, rank);
    const std::unique_ptr<Communicator> communicator = device.communicator(group);
    std::vector<Parameter> parameters(2);
    parameters[0].name = "first";
    parameters[0].shape = {3, 4};
    parameters[1].name = "second";
    parameters[1].shape = {3};
    if (rank == 1) change(parameters);
    try {
      check_same_parameters(device, *communicator, parameters);
    } catch (const std::runtime_error& error) {
      said[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  const std::string expected = text.empty() ? ""
                                            : "replicate: the model differs between ranks: rank 0 " + text +
                                                  ": build the same model on every rank";
  CHECK(said == std::vector<std::string>(world, expected));
}

}  // namespace

TEST_CASE("ranks agree on parameters, or say in the same words which one differs, and how") {
  check_says([](auto& /*parameters*/) {}, "");
  check_says([](auto& parameters) { parameters.pop_back(); }, "has 2 parameters, and rank 1 has 1 parameters");
  check_says([](auto& parameters) { parameters[1].shape = {5, 3}; },
             R"(has f32 [3] as "second", and rank 1 has f32 [5, 3] as "second")");
  check_says([](auto& parameters) { parameters[0].shape = {3, 4, 1}; },
             R"(has f32 [3, 4] as "first", and rank 1 has f32 [3, 4, 1] as "first")");
  check_says([](auto& parameters) { parameters[1].trainable = false; },
             R"(has f32 [3] as "second", and rank 1 has frozen f32 [3] as "second")");
  check_says([](auto& parameters) { parameters[1].dtype = DType::bf16; },
             R"(has f32 [3] as "second", and rank 1 has bf16 [3] as "second")");
  check_says([](auto& parameters) { parameters[1].name = "other"; },
             R"(has f32 [3] as "second", and rank 1 has f32 [3] as "other")");
}

}  // namespace shardproof::engines

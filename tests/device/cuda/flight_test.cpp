// A rank's flight record of its GPU.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "harness/control/control_page.hpp"
#include "harness/control/flight_ring.hpp"
#include "harness/device/cuda/gpu.hpp"
#include "tests/device/cuda/cpu_vendor.hpp"

using namespace shardproof;

TEST_CASE("a group that issues a collective on a GPU is known by its name, however many were made since") {
  const control::ControlPage page = control::ControlPage::anonymous(1);
  const device::cuda::Gpu gpu(device::cuda::cpu::vendor(),
                              {.check = [] {},
                               .give_up_at = [](control::Deadline now) { return now + std::chrono::seconds(10); },
                               .flight = &page.flight(0),
                               .epoch = [] { return std::uint32_t{1}; }});
  page.flight(0).join_group(1, "world", std::array{0});
  const auto kept = gpu.joined({.id = 2, .name = "kept", .members = {0}});
  for (std::uint64_t i = 0; i < control::FlightRing::groups_kept; ++i)
    gpu.joined({.id = 3 + i, .name = "young", .members = {0}});
  for (std::uint64_t sequence : {0U, 1U}) {
    gpu.issued({.group = kept, .call = {.sequence = sequence}});
    CHECK(page.last_call(0) == "barrier #" + std::to_string(sequence) + " in group kept");
  }
}

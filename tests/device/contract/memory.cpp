// Memory comes and goes in the order of streams.
#include "harness/player/play.hpp"
#include "tests/device/contract/contract.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

using namespace contract;

/// Fresh memory holds no result of earlier work.
RANKED_TEST_CASE("contract/fresh_memory_is_poisoned", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Tensor fresh = get(device, device.empty(Device::compute, DType::f32, {100}, MemoryClass::other, "fresh"));
  CHECK(std::ranges::all_of(fresh.values<float>(), [](float value) { return std::isnan(value); }));
}

/// The second buffer may be where the first one was; what the stream did with the first was before.
RANKED_TEST_CASE("contract/release_is_in_the_order_of_its_stream", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Stream stream = device.create_stream(StreamRole::other, "one");
  const Tensor kept = room(device, stream, iota(0, 4096));
  Tensor first = room(device, stream, kept);
  fill(device, stream, first, 5, slow);
  copy(device, stream, kept, first);
  device.release(stream, first.storage());
  first = {};
  const Tensor second = room(device, stream, kept);
  fill(device, stream, second, 6);
  const Tensor fives = get(device, kept), sixes = get(device, second);
  CHECK(std::ranges::all_of(fives.values<float>(), [](float value) { return value == 5; }));
  CHECK(std::ranges::all_of(sixes.values<float>(), [](float value) { return value == 6; }));
}

RANKED_TEST_CASE("contract/live_bytes_are_counted", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  CHECK(platform->live_bytes() == 0);
  {
    const Tensor dropped = device.empty(Device::compute, DType::f64, {10}, MemoryClass::other, "dropped");
    const Tensor released = device.empty(Device::compute, DType::u8, {3}, MemoryClass::other, "released");
    CHECK(platform->live_bytes() == 83);
    device.release(Device::compute, released.storage());
    CHECK(platform->live_bytes() == 80);
  }
  CHECK(platform->live_bytes() == 0);
  device.synchronize();
}

RANKED_TEST_CASE("contract/what_cannot_be_released_is_refused", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Tensor once = device.empty(Device::compute, DType::f32, {4}, MemoryClass::other, "once");
  device.release(Device::compute, once.storage());
  CHECK_THROWS_AS(device.release(Device::compute, once.storage()), std::logic_error);
  CHECK_THROWS_AS(device.release(Device::compute, Tensor::host(DType::f32, {4}).storage()), std::invalid_argument);
  CHECK_THROWS_AS(device.release(Device::compute, nullptr), std::invalid_argument);
  device.synchronize();
}

RANKED_TEST_CASE("contract/nothing_is_allocated_and_moved", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Tensor empty = put(device, Device::compute, Tensor::host(DType::f32, {0, 3}));
  fill(device, Device::compute, empty, 1);
  CHECK(get(device, empty) == Tensor::host(DType::f32, {0, 3}));
}

RANKED_TEST_CASE("contract/every_dtype_goes_there_and_back", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  for (const DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) {
    INFO(to_string(dtype));
    const Tensor host = Tensor::host(dtype, {7, 3});
    auto bytes = host.values<std::byte>();
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
    CHECK(get(device, put(device, Device::compute, host)) == host);
  }
}

RANKED_TEST_CASE("contract/what_a_buffer_holds_can_be_said_later", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Tensor held = device.empty(Device::compute, DType::f32, {4}, MemoryClass::other, "unknown");
  device.describe(held.storage(), MemoryClass::gathered, "layers.1");
  device.release(Device::compute, held.storage());
  CHECK_THROWS_AS(device.describe(held.storage(), MemoryClass::shard, "gone"), std::logic_error);
  device.synchronize();
  const Recording recording = platform->take_recording();
  const auto allocation = std::ranges::find_if(
      recording.trace.facts, [](const Fact& fact) { return std::holds_alternative<fact::Allocated>(fact); });
  REQUIRE(allocation != recording.trace.facts.end());
  CHECK(std::get<fact::Allocated>(*allocation).memory == MemoryClass::gathered);
  CHECK(std::get<fact::Allocated>(*allocation).label == "layers.1");
}

/// A GPU cannot adopt memory of the host. The simulated device can adopt any memory.
RANKED_TEST_CASE("contract/memory_of_the_host_is_adopted_or_refused", ranks(1)) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const bool is_host = device.empty(Device::compute, DType::f32, {4}, MemoryClass::other, "room").storage()->space() ==
                       MemorySpace::host;
  alignas(8) std::array<std::byte, 8> mine{};
  const auto adopt = [&] {
    return device.adopt(Device::compute, mine.data(), mine.size(), MemoryClass::other, "mine");
  };
  if (is_host) {
    CHECK(adopt()->data() == mine.data());
  } else {
    CHECK_THROWS_AS(adopt(), std::logic_error);
  }
  CHECK(platform->live_bytes() == 0);
  device.synchronize();
}

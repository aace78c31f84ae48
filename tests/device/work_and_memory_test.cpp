#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <cmath>
#include <cstdint>
#include <span>
#include <stdexcept>

#include "harness/device/sim/sim_device.hpp"
#include "harness/trace/memory.hpp"
#include "harness/trace/races.hpp"

using namespace shardproof;

TEST_CASE("work happens at once, with the host's kernels") {
  device::SimDevice device({}, 0);
  const Tensor out = device.empty(Device::compute, DType::f32, {3}, MemoryClass::activation, "out");
  device.submit(Device::compute, {.kind = WorkKind::fill,
                                  .label = "ones",
                                  .reads = {},
                                  .writes = {out},
                                  .run = [&](const Kernels& kernels, NativeStream stream) {
                                    CHECK(&kernels == &cpu_kernels());
                                    CHECK(stream == nullptr);
                                    kernels.fill(stream, out, 1.0);
                                  }});
  CHECK(out.to_doubles() == std::vector<double>{1, 1, 1});
}

TEST_CASE("facts name the bytes that work touches: views by their place, host memory and empty views not at all") {
  device::SimDevice device({}, 0);
  const Tensor a = device.empty(Device::compute, DType::f32, {4, 2}, MemoryClass::activation, "a");
  const Tensor b = device.empty(Device::compute, DType::bf16, {4}, MemoryClass::activation, "b");
  device.submit(Device::compute, {.kind = WorkKind::forward,
                                  .label = "layers.0",
                                  .reads = {a.narrow(1, 2), Tensor::host(DType::f32, {8}), Tensor{}, a.narrow(4, 0)},
                                  .writes = {b},
                                  .run = {}});
  const auto& work = std::get<fact::Work>(device.trace().facts.back());
  CHECK(work.label == "layers.0");
  CHECK(work.reads == std::vector<ByteRange>{{1, 8, 16}});
  CHECK(work.writes == std::vector<ByteRange>{{2, 0, 8}});
}

TEST_CASE("work that throws leaves no trace") {
  device::SimDevice device({}, 0);
  const auto failing = [](const Kernels&, NativeStream) { throw std::runtime_error("singular"); };
  CHECK_THROWS_MATCHES(
      device.submit(Device::compute,
                    {.kind = WorkKind::other, .label = "", .reads = {}, .writes = {}, .cost = 5, .run = failing}),
      std::runtime_error, Catch::Matchers::Message("singular"));
  CHECK(device.trace().facts.empty());
  device.synchronize(Device::compute);
  CHECK(device.host_clock() == 0);
}

TEST_CASE("memory is aligned, poisoned, and numbered from one without repetition") {
  device::SimDevice device({}, 0);
  const auto first = device.allocate(Device::compute, 20, MemoryClass::shard, "first");
  CHECK(first->buffer() == 1);
  CHECK(first->bytes() == 20);
  CHECK(reinterpret_cast<std::uintptr_t>(first->data()) % 64 == 0);
  for (std::size_t i = 0; i < first->bytes(); ++i) CHECK(first->data()[i] == device::SimDevice::poison);
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const Tensor fresh = device.empty(Device::compute, dtype, {1}, MemoryClass::other, "fresh");
    CHECK(std::isnan(fresh.to_doubles().at(0)));
  }
  device.release(Device::compute, first);
  CHECK(device.allocate(Device::compute, 20, MemoryClass::shard, "next")->buffer() == 6);
  CHECK(device.allocate(Device::compute, 0, MemoryClass::shard, "nothing")->bytes() == 0);
}

TEST_CASE("a read of released memory gives NaN") {
  device::SimDevice device({}, 0);
  const Tensor tensor = device.empty(Device::compute, DType::f32, {2}, MemoryClass::gathered, "stale");
  cpu_kernels().fill(nullptr, tensor, 3.0);
  device.release(Device::compute, tensor.storage());
  CHECK(std::isnan(tensor.to_doubles().at(1)));
}

TEST_CASE("live bytes follow allocation and release") {
  device::SimDevice device({}, 0);
  CHECK(device.live_bytes() == 0);
  auto a = device.allocate(Device::compute, 100, MemoryClass::gathered, "a");
  auto b = device.allocate(Device::compute, 10, MemoryClass::shard, "b");
  CHECK(device.live_bytes() == 110);
  device.release(Device::compute, a);
  CHECK(device.live_bytes() == 10);
  a.reset();
  CHECK(device.live_bytes() == 10);
  b.reset();
  CHECK(device.live_bytes() == 0);
  CHECK(trace::peak(device.trace(), MemoryClass::gathered) == trace::Live{1, 100});
}

TEST_CASE("storage that is dropped is released on the stream that it was allocated on") {
  device::SimDevice device({}, 0);
  const Stream stream = device.create_stream(StreamRole::all_gather, "ag");
  {
    const Tensor dropped = device.empty(stream, DType::f32, {2}, MemoryClass::gathered, "dropped");
  }
  CHECK(std::get<fact::Released>(device.trace().facts.back()) == fact::Released{stream.id, 1});

  auto kept = device.allocate(stream, 8, MemoryClass::gathered, "kept");
  device.release(Device::compute, kept);
  const std::size_t facts = device.trace().facts.size();
  CHECK(std::get<fact::Released>(device.trace().facts.back()) == fact::Released{0, 2});
  kept.reset();
  CHECK(device.trace().facts.size() == facts);
}

TEST_CASE("the device refuses a wrong release and names the buffer") {
  device::SimDevice device({}, 2), other({}, 2);
  const auto storage = device.allocate(Device::compute, 8, MemoryClass::gathered, "layers.1");
  device.release(Device::compute, storage);
  CHECK_THROWS_MATCHES(device.release(Device::compute, storage), std::logic_error,
                       Catch::Matchers::Message("release on rank 2: buffer 1 \"layers.1\" was released before"));
  CHECK_THROWS_MATCHES(other.release(Device::compute, storage), std::invalid_argument,
                       Catch::Matchers::Message("release on rank 2: buffer 1 was not allocated on this device"));
  CHECK_THROWS_AS(device.release(Device::compute, Tensor::host(DType::f32, {1}).storage()), std::invalid_argument);
  CHECK_THROWS_AS(device.release(Device::compute, nullptr), std::invalid_argument);
}

TEST_CASE("adopted memory is the subject's: the device counts and records it, and never writes to nor frees it") {
  device::SimDevice device({}, 0);
  alignas(8) std::array<float, 4> mine{1, 2, 3, 4};
  const auto bytes = std::as_writable_bytes(std::span(mine));
  const auto storage = device.adopt(Device::compute, bytes.data(), bytes.size(), MemoryClass::gradient, "mine");
  CHECK(storage->data() == bytes.data());
  CHECK(device.live_bytes() == 16);
  CHECK(device.trace().facts == std::vector<Fact>{fact::Allocated{0, 1, 16, MemoryClass::gradient, "mine", true}});
  device.release(Device::compute, storage);
  CHECK(device.live_bytes() == 0);
  CHECK(device.trace().facts.back() == Fact{fact::Released{0, 1, false}});
  CHECK(mine == std::array<float, 4>{1, 2, 3, 4});

  {
    const auto dropped = device.adopt(Device::compute, bytes.data(), bytes.size(), MemoryClass::gradient, "again");
  }
  CHECK(device.trace().facts.back() == Fact{fact::Released{0, 2, false}});
  CHECK(mine == std::array<float, 4>{1, 2, 3, 4});
}

TEST_CASE("only adopted memory goes to a cache") {
  device::SimDevice device({}, 2);
  alignas(8) std::array<std::byte, 8> mine{};
  const auto adopted = device.adopt(Device::compute, mine.data(), mine.size(), MemoryClass::other, "mine");
  device.release_to_cache(Device::compute, adopted);
  CHECK(device.live_bytes() == 0);
  CHECK(device.trace().facts.back() == Fact{fact::Released{0, 1, true}});
  CHECK_THROWS_AS(device.release_to_cache(Device::compute, adopted), std::logic_error);
  const auto allocated = device.allocate(Device::compute, 8, MemoryClass::other, "its own");
  CHECK_THROWS_MATCHES(
      device.release_to_cache(Device::compute, allocated), std::invalid_argument,
      Catch::Matchers::Message(
          "release_to_cache on rank 2: buffer 2 \"its own\" was allocated here, not adopted: release it"));
}

TEST_CASE("memory that is part of a buffer is not adopted") {
  device::SimDevice device({}, 1);
  const auto whole = device.allocate(Device::compute, 64, MemoryClass::gathered, "layers.1");
  CHECK_THROWS_MATCHES(
      device.adopt(Device::compute, whole->data() + 56, 16, MemoryClass::parameter, "part"), std::invalid_argument,
      Catch::Matchers::Message(
          "adopt on rank 1: 16 bytes \"part\" overlap buffer 1 \"layers.1\", which has not been released"));
  CHECK_THROWS_AS(device.adopt(Device::compute, whole->data(), 1, MemoryClass::parameter, "first byte"),
                  std::invalid_argument);
  CHECK_THROWS_AS(device.adopt(Device::compute, nullptr, 1, MemoryClass::parameter, "nothing"), std::invalid_argument);
  CHECK_THROWS_AS(device.adopt(Stream{7, StreamRole::other}, nullptr, 0, MemoryClass::parameter, "no stream"),
                  std::invalid_argument);
  CHECK(device.adopt(Device::compute, whole->data() + 8, 0, MemoryClass::parameter, "no bytes")->bytes() == 0);

  alignas(8) std::array<std::byte, 16> mine{};
  const auto first = device.adopt(Device::compute, mine.data(), 8, MemoryClass::parameter, "first half");
  CHECK_NOTHROW(device.adopt(Device::compute, mine.data() + 8, 8, MemoryClass::parameter, "second half"));
  device.release(Device::compute, first);
  CHECK_NOTHROW(device.adopt(Device::compute, mine.data(), 8, MemoryClass::parameter, "first half again"));
}

TEST_CASE("memory that some dtype could not lie in, or that has no end, is not adopted") {
  device::SimDevice device({}, 1);
  alignas(8) std::array<std::byte, 16> mine{};
  const auto adopt = [&](std::byte* data, std::size_t bytes) {
    device.adopt(Device::compute, data, bytes, MemoryClass::other, "mine");
  };
  CHECK_THROWS_WITH(adopt(mine.data() + 4, 4),
                    Catch::Matchers::StartsWith("adopt on rank 1: 4 bytes \"mine\" begin at 0x") &&
                        Catch::Matchers::EndsWith(", which is not a multiple of 8"));
  CHECK_THROWS_WITH(adopt(mine.data(), ~std::size_t{0}),
                    Catch::Matchers::EndsWith("\"mine\" end after the last address"));
  CHECK_NOTHROW(adopt(mine.data() + 1, 0));
}

TEST_CASE("a buffer described late is recorded as if the allocation had described it") {
  device::SimDevice device({}, 0);
  const auto storage = device.allocate(Device::compute, 8, MemoryClass::other, "unknown");
  device.submit(Device::compute, {.kind = WorkKind::other, .label = "in between"});
  device.describe(storage, MemoryClass::gathered, "layers.1");
  CHECK(device.trace().facts.size() == 2);
  CHECK(device.trace().facts.front() == Fact{fact::Allocated{0, 1, 8, MemoryClass::gathered, "layers.1"}});
  CHECK(trace::peak(device.trace(), MemoryClass::gathered) == trace::Live{1, 8});

  const Trace taken = device.take_trace();
  device.submit(Device::compute, {.kind = WorkKind::other, .label = "of the next trace"});
  CHECK_NOTHROW(device.describe(storage, MemoryClass::shard, "too late"));
  CHECK(std::get<fact::Allocated>(taken.facts.front()).label == "layers.1");
  device.release(Device::compute, storage);
  CHECK_THROWS_MATCHES(device.describe(storage, MemoryClass::shard, "gone"), std::logic_error,
                       Catch::Matchers::Message("describe on rank 0: buffer 1 \"too late\" was released before"));
  CHECK_THROWS_AS(device.describe(Tensor::host(DType::f32, {1}).storage(), MemoryClass::shard, "a stranger's"),
                  std::invalid_argument);
}

TEST_CASE("memory that is hidden from work comes back, also where the work throws, and adopted memory with it") {
  device::SimDevice device({}, 0, {.hide_undeclared_memory = true});
  alignas(8) std::array<float, 2> mine{1, 2};
  const auto bytes = std::as_writable_bytes(std::span(mine));
  const auto storage = device.adopt(Device::compute, bytes.data(), bytes.size(), MemoryClass::other, "mine");
  const auto look = [&](const Kernels&, NativeStream) {
    CHECK(std::isnan(mine[0]));
    throw std::runtime_error("seen");
  };
  CHECK_THROWS_MATCHES(device.submit(Device::compute, {.kind = WorkKind::other, .label = "looks", .run = look}),
                       std::runtime_error, Catch::Matchers::Message("seen"));
  CHECK(mine == std::array<float, 2>{1, 2});
}

TEST_CASE("storage may outlive its device") {
  Tensor survivor;
  {
    device::SimDevice device({}, 0);
    survivor = device.empty(Device::compute, DType::f32, {2}, MemoryClass::shard, "survivor");
    cpu_kernels().fill(nullptr, survivor, 2.0);
  }
  CHECK(survivor.to_doubles() == std::vector<double>{2, 2});
  survivor = {};
}

TEST_CASE("a taken trace is whole, and the next one starts empty") {
  device::SimDevice device({}, 5);
  device.mark("one");
  const Trace taken = device.take_trace();
  CHECK(taken.rank == 5);
  CHECK(taken.facts == std::vector<Fact>{fact::Mark{"one", 0}});
  CHECK(device.trace().facts.empty());
  CHECK(device.trace().rank == 5);
}

TEST_CASE("host accesses are recorded and race where the host does not wait") {
  device::SimDevice device({}, 0);
  const Tensor loss = device.empty(Device::compute, DType::f32, {1}, MemoryClass::activation, "loss");
  device.submit(Device::compute, {.kind = WorkKind::loss, .label = "loss", .reads = {}, .writes = {loss}, .run = {}});
  device.host_access("print the loss", {loss}, {});
  CHECK(trace::find_races(device.trace()).size() == 1);
  static_cast<void>(device.take_trace());
  device.submit(Device::compute, {.kind = WorkKind::loss, .label = "loss", .reads = {}, .writes = {loss}, .run = {}});
  device.synchronize(Device::compute);
  device.host_access("print the loss", {loss}, {});
  CHECK(trace::find_races(device.trace()).empty());
}

// When work counts as passing held work, on a device whose gates a test opens and closes.
#include "harness/player/holding.hpp"

#include <catch2/catch_test_macros.hpp>
#include <memory>
#include <vector>

#include "harness/device/imagined_communicator.hpp"
#include "harness/device/sim/sim_device.hpp"

using namespace shardproof;
using player::HeldPlatform;

namespace {

struct GateBook {
  std::vector<std::uint32_t> held;  // streams
  bool is_open = false;
  bool has_given_up = false;
};

class WatchedGate final : public StreamGate {
 public:
  explicit WatchedGate(GateBook& book) : book_(book) {}
  void hold(Stream stream) override { book_.held.push_back(stream.id); }
  void open() override { book_.is_open = true; }
  bool holds() const override { return !book_.is_open && !book_.has_given_up; }

 private:
  GateBook& book_;
};

class GatedPlatform final : public Platform {
 public:
  explicit GatedPlatform(bool has_gates) : has_gates_(has_gates) {}
  Device& device() override { return device_; }
  Communicator& world() override { return world_; }
  std::unique_ptr<StreamGate> gate() override { return has_gates_ ? std::make_unique<WatchedGate>(book) : nullptr; }
  Recording take_recording() override {
    return {.trace = device_.take_trace(), .measured = std::nullopt, .records = std::nullopt};
  }
  std::size_t live_bytes() const override { return device_.live_bytes(); }

  GateBook book;

 private:
  bool has_gates_;
  device::SimDevice device_{{}, 0};
  device::ImaginedCommunicator world_{device_, 2};
};

/// The second forward is held, and a gather is to pass it.
struct Held {
  explicit Held(bool has_gates = true) : inner(has_gates) {}

  void forward() { platform.device().submit(Device::compute, {.kind = WorkKind::forward, .label = "a"}); }
  void gather() {
    platform.world().run(unheld,
                         {.in = Tensor::host(DType::f32, {1}), .out = Tensor::host(DType::f32, {2}), .tag = "b"});
  }

  GatedPlatform inner;
  player::HeldPlatform platform{inner, {{WorkKind::forward, "a", 2}, {CollectiveKind::all_gather, "b"}}};
  Device& device = platform.device();
  Stream unheld = device.create_stream(StreamRole::all_gather, "beside");
  const GateBook& book = inner.book;
};

}  // namespace

TEST_CASE("a piece that ends while the other is held has passed it, and the gate opens when the host waits") {
  Held held;
  held.forward();
  CHECK(held.book.held.empty());
  held.forward();
  CHECK(held.book.held == std::vector{Device::compute.id});
  held.gather();
  CHECK_FALSE(held.book.is_open);
  held.device.synchronize(Device::compute);
  CHECK(held.book.is_open);
  CHECK(held.platform.has_passed() == true);
}

TEST_CASE("a piece that is issued after the host's wait for held work has not passed it") {
  Held held;
  held.forward();
  held.forward();
  held.device.synchronize();
  CHECK(held.book.is_open);
  held.gather();
  CHECK(held.platform.has_passed() == false);
}

TEST_CASE("a gate that gave up before the piece had ended proves nothing") {
  Held held;
  held.forward();
  held.forward();
  held.gather();
  held.inner.book.has_given_up = true;
  held.device.synchronize();
  CHECK(held.platform.has_passed() == false);
}

TEST_CASE("a piece that was never held, or never waited for, proves nothing") {
  Held held;
  held.forward();
  held.gather();
  held.device.synchronize();
  CHECK(held.book.held.empty());
  CHECK(held.platform.has_passed() == false);
  Held unfinished;
  unfinished.forward();
  unfinished.forward();
  unfinished.gather();
  CHECK(unfinished.platform.has_passed() == false);
}

TEST_CASE("without gates there is nothing to prove") {
  Held held(false);
  held.forward();
  held.forward();
  held.gather();
  held.device.synchronize();
  CHECK_FALSE(held.platform.has_passed().has_value());
}

TEST_CASE("a host that waits for work that the gate does not hold leaves the gate closed") {
  Held held;
  held.forward();
  const Event before = held.device.record(Device::compute);
  held.forward();
  const Event after_held = held.device.record(Device::compute), free = held.device.record(held.unheld);
  held.device.synchronize(before);
  held.device.synchronize(free);
  held.device.synchronize(held.unheld);
  CHECK_FALSE(held.book.is_open);
  held.gather();
  held.device.synchronize(after_held);
  CHECK(held.book.is_open);
  CHECK(held.platform.has_passed() == true);
}

TEST_CASE(
    "a stream that waits for what is held stands behind the gate as well, and so does what is copied to the host") {
  Held held;
  held.forward();
  held.forward();
  const Stream third = held.device.create_stream(StreamRole::other, "third");
  held.device.wait(third, Device::compute);
  held.gather();
  held.device.synchronize(held.device.record(third));
  CHECK(held.book.is_open);
  Held copied;
  copied.forward();
  copied.forward();
  copied.device.to_host(Tensor::host(DType::f32, {1}));
  CHECK(copied.book.is_open);
}

TEST_CASE("a collective after a held collective waits at the gate, whatever its stream") {
  GatedPlatform inner(true);
  player::HeldPlatform platform(inner, {{CollectiveKind::all_gather, "a"}, {WorkKind::forward, "a"}});
  Device& device = platform.device();
  const Stream one = device.create_stream(StreamRole::all_gather, "one"),
               two = device.create_stream(StreamRole::reduce, "two");
  const Collective gather{.in = Tensor::host(DType::f32, {1}), .out = Tensor::host(DType::f32, {2}), .tag = "a"};
  platform.world().run(one, gather);
  platform.world().run(two, {.in = gather.in, .out = gather.out, .tag = "b"});
  device.submit(Device::compute, {.kind = WorkKind::forward, .label = "a"});
  device.synchronize(two);
  CHECK(inner.book.is_open);
  CHECK(platform.has_passed() == true);
}

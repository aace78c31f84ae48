#include "harness/device/cuda/gate.hpp"

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <memory>

#include "tests/device/cuda/cpu_runtime.hpp"
#include "tests/device/cuda/cpu_vendor.hpp"

using namespace shardproof;
using namespace shardproof::device::cuda;
using namespace std::chrono_literals;

namespace {

control::Deadline soon() { return std::chrono::steady_clock::now() + 10s; }

struct Bench {
  Gpu gpu{cpu::vendor(),
          {.rank = 3,
           .ordinal = 0,
           .check = [] {},
           .give_up_at = [](control::Deadline) { return soon(); },
           .for_abort = std::chrono::seconds(5)}};
  StreamHandle held = gpu.create_stream("held"), other = gpu.create_stream("other");
  ~Bench() {
    gpu.destroy_stream(held);
    gpu.destroy_stream(other);
  }
  Bench() = default;
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  // Returns what tells that the stream has come to it.
  std::shared_ptr<std::atomic<bool>> work(StreamHandle stream) const {
    auto done = std::make_shared<std::atomic<bool>>(false);
    cpu::launch(stream, 0, [done] { *done = true; });
    return done;
  }
  void finish(StreamHandle stream) {
    EventHandle event = gpu.record(stream);
    gpu.await(event, [] { return "a test's stream has not ended"; });
    gpu.give_back(event);
  }
};

}  // namespace

TEST_CASE("gated work does not run when other streams have run, and runs when the gate opens") {
  Bench bench;
  Gate gate(bench.gpu);
  gate.hold(bench.held);
  const auto after_held = bench.work(bench.held);
  for (int i = 0; i < 3; ++i) {
    const auto independent = bench.work(bench.other);
    bench.finish(bench.other);
    CHECK(*independent);
    CHECK_FALSE(*after_held);
    CHECK(gate.holds());
  }
  gate.open();
  CHECK_FALSE(gate.holds());
  bench.finish(bench.held);
  CHECK(*after_held);
}

TEST_CASE("one gate holds several streams, and one that is open holds none") {
  Bench bench;
  Gate gate(bench.gpu);
  gate.hold(bench.held);
  gate.hold(bench.other);
  const auto one = bench.work(bench.held), two = bench.work(bench.other);
  CHECK(gate.holds());
  CHECK_FALSE(*one);
  CHECK_FALSE(*two);
  gate.open();
  bench.finish(bench.held);
  bench.finish(bench.other);
  CHECK(*one);
  CHECK(*two);
  gate.hold(bench.held);
  const auto later = bench.work(bench.held);
  bench.finish(bench.held);
  CHECK(*later);
}

TEST_CASE("a gate that goes out of scope has let everything go on, and its kernels are gone") {
  Bench bench;
  std::shared_ptr<std::atomic<bool>> after_held;
  EventHandle gone = nullptr;
  const auto before = std::chrono::steady_clock::now();
  {
    Gate gate(bench.gpu);
    gate.hold(bench.held);
    gone = bench.gpu.record(bench.held);
    after_held = bench.work(bench.held);
    CHECK_FALSE(*after_held);
  }
  bench.gpu.await(gone, [] { return std::string("the gate's kernel has not gone"); });
  CHECK(std::chrono::steady_clock::now() - before < Gate::longest / 2);  // it was opened, and not waited for
  bench.finish(bench.held);
  CHECK(*after_held);
  bench.gpu.give_back(gone);
}

TEST_CASE("abandoning a GPU opens its gates, and the gate says that it holds no longer") {
  Bench bench;
  Gate gate(bench.gpu);
  gate.hold(bench.held);
  const auto after_held = bench.work(bench.held);
  CHECK(gate.holds());
  bench.gpu.abandon();
  CHECK_FALSE(bench.gpu.is_lost());
  CHECK(*after_held);
  CHECK_FALSE(gate.holds());
}

TEST_CASE("a wait for held work ends by the world's deadline, and leaves no work on the GPU") {
  Gpu gpu(cpu::vendor(), {.rank = 0,
                          .ordinal = 0,
                          .check = [] {},
                          .give_up_at = [](control::Deadline now) { return now + 20ms; },
                          .for_abort = std::chrono::seconds(5)});
  StreamHandle stream = gpu.create_stream("held");
  {
    Gate gate(gpu);
    gate.hold(stream);
    EventHandle event = gpu.record(stream);
    CHECK_THROWS_AS(gpu.await(event, [] { return "it is held"; }), control::DeadlineExceeded);
    CHECK_FALSE(gate.holds());
    gpu.give_back(event);
  }
  CHECK_FALSE(gpu.is_lost());
  gpu.destroy_stream(stream);
}

TEST_CASE("a cap ends what a gate holds, and the gate says that it holds no longer") {
  Bench bench;
  Gate gate(bench.gpu, 5ms);
  const auto before = std::chrono::steady_clock::now();
  gate.hold(bench.held);
  const auto after_held = bench.work(bench.held);
  bench.finish(bench.held);
  CHECK(std::chrono::steady_clock::now() - before >= 5ms);
  CHECK(*after_held);
  CHECK_FALSE(gate.holds());
}

TEST_CASE("a gate without an end, or with too long a one, is refused") {
  using Catch::Matchers::ContainsSubstring;
  Bench bench;
  CHECK_THROWS_WITH(Gate(bench.gpu, 0ns), ContainsSubstring("a gate on rank 3 cannot hold for 0 ns"));
  CHECK_THROWS_WITH(Gate(bench.gpu, 11s), ContainsSubstring("at most 10000000000 ns"));
}

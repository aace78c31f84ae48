// Ranks that end during their work on GPUs. A launcher must run each case, and reports how it ended.
#include <shardproof.hpp>

#include <chrono>
#include <csignal>
#include <thread>

#include "harness/player/play.hpp"
#include "harness/runner/play/play_main.hpp"

using namespace shardproof;

namespace {

/// Adds ones over the world, as far as this rank takes part.
void sum(Rank& rank, bool takes_part) {
  const auto platform = make_platform(rank);
  Device& device = platform->device();
  const Tensor one = device.empty(Device::compute, DType::f32, {1}, MemoryClass::other, "one");
  device.submit(Device::compute,
                {.label = "fill", .writes = {one}, .run = [=](const Kernels& kernels, NativeStream stream) {
                   kernels.fill(stream, one, 1);
                 }});
  if (takes_part) {
    platform->world().run(
        Device::compute,
        {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = one, .out = one, .tag = "sum"});
  }
  device.synchronize();
  CHECK(device.to_host(one).values<float>()[0] == static_cast<float>(takes_part ? rank.world().size() : 1));
}

}  // namespace

RANKED_TEST_CASE("gpu/dies", ranks(2)) {
  if (rank.index() == 1) {
    make_platform(rank);
    ::raise(SIGKILL);
  }
  sum(rank, true);
}

RANKED_TEST_CASE("gpu/fails", ranks(2)) {
  if (rank.index() == 1) {
    const auto platform = make_platform(rank);
    REQUIRE(platform == nullptr);
  }
  sum(rank, true);
}

RANKED_TEST_CASE("gpu/stays_away", ranks(2)) { sum(rank, rank.index() == 0); }

/// Never ends, in a place where no other rank waits for it.
RANKED_TEST_CASE("gpu/hangs", ranks(2)) {
  const auto begun = rank.index() == 1 ? make_platform(rank) : nullptr;
  while (begun != nullptr) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  sum(rank, true);
}

RANKED_TEST_CASE("gpu/works", ranks(2)) { sum(rank, true); }

RANKED_TEST_CASE("gpu/spreads", ranks(4)) { sum(rank, true); }

int main(int argc, char** argv) { return shardproof::play_main(argc, argv); }

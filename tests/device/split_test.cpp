// Groups that are split off a communicator, on the device of each rank.
#include <catch2/catch_test_macros.hpp>
#include <thread>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/device/sim/sim_device.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"

using namespace shardproof;

namespace {

// Plays `body` as every rank of a world, one thread each; what it returns, by rank.
template <class Body>
auto on_ranks(int world, Body body) {
  control::ControlPage control = control::ControlPage::anonymous(world);
  const auto groups = fabric::make_thread_world({.control = &control, .epoch = [](int) { return 1U; }});
  std::vector<decltype(body(*groups.front()))> results(static_cast<std::size_t>(world));
  {
    std::vector<std::jthread> ranks;
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      ranks.emplace_back([&, rank] { results[rank] = body(*groups[rank]); });
    }
  }
  return results;
}

}  // namespace

TEST_CASE("a communicator splits by color, and a negative color joins none") {
  const auto members = on_ranks(4, [](Group& world) {
    device::SimDevice device({}, world.rank());
    const auto all = device.communicator(world);
    const auto part = all->split(world.rank() == 3 ? -1 : world.rank() % 2, -world.rank(), "parity");
    return part ? std::vector<int>(part->members().begin(), part->members().end()) : std::vector<int>{};
  });
  CHECK(members == std::vector<std::vector<int>>{{2, 0}, {1}, {2, 0}, {}});
}

TEST_CASE("a part of a group runs its own collectives, and has its own resource") {
  CostModel costs;
  costs.collectives[CollectiveKind::all_reduce] = {.fixed = 10};
  const auto seen = on_ranks(4, [&](Group& world) {
    device::SimDevice device(costs, world.rank());
    const auto all = device.communicator(world);
    const auto part = all->split(world.rank() / 2, world.rank(), "half");
    const Stream aside = device.create_stream(StreamRole::all_reduce, "aside");
    const Tensor one = device.empty(Device::compute, DType::f32, {1}, MemoryClass::other, "one"),
                 two = device.empty(Device::compute, DType::f32, {1}, MemoryClass::other, "two");
    for (const Tensor& tensor : {one, two}) tensor.values<float>()[0] = static_cast<float>(1 << world.rank());
    device.wait(aside, Device::compute);
    all->run(Device::compute,
             {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = one, .out = one, .tag = "all"});
    part->run(aside, {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = two, .out = two, .tag = "part"});
    const auto& last = std::get<fact::Collective>(device.trace().facts.back());
    return std::vector<double>{one.to_doubles()[0], two.to_doubles()[0], static_cast<double>(last.start),
                               static_cast<double>(last.group.front())};
  });
  CHECK(seen == std::vector<std::vector<double>>{{15, 3, 0, 0}, {15, 3, 0, 0}, {15, 12, 0, 2}, {15, 12, 0, 2}});
}

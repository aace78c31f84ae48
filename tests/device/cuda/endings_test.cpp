// How waits on a GPU end when what they wait for does not come: from every state in which a rank can be when its case
// is over.
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/device/cuda/kernels/table.hpp"
#include "tests/device/cuda/cpu_vendor.hpp"
#include "tests/device/cuda/planted.hpp"
#include "tests/device/cuda/rank_of_gpus.hpp"

using namespace shardproof;
using Catch::Matchers::ContainsSubstring;
using device::cuda::RankOfGpus;
using testing::Side;

namespace {

Tensor on_device(Device& device, std::int64_t count) {
  const Tensor made = device.empty(Device::compute, DType::f32, {count}, MemoryClass::other, "operand");
  device.submit(Device::compute,
                {.label = "fill", .writes = {made}, .run = [=](const Kernels& kernels, NativeStream stream) {
                   kernels.fill(stream, made, 1);
                 }});
  return made;
}

void sum(Platform& platform, const Tensor& operand) {
  platform.world().run(
      Device::compute,
      {.kind = CollectiveKind::all_reduce, .op = ReduceOp::sum, .in = operand, .out = operand, .tag = "sum"});
}

float first_of(Device& device, const Tensor& tensor) {
  device.synchronize();
  return device.to_host(tensor).values<float>()[0];
}

/// The text of what was thrown, and of which kind.
template <class Exception>
std::string thrown(const std::function<void()>& call) {
  return testing::thrown_by<Exception>(call);
}

void no_failures(const std::vector<std::string>& failures) {
  for (const std::string& failure : failures) {
    INFO(failure);
    CHECK(failure.empty());
  }
}

/// Two ranks, which add once again when all is over.
void run_two(const std::function<void(Side&, RankOfGpus&)>& body,
             const device::cuda::VendorTables& vendor = device::cuda::cpu::vendor()) {
  const auto boards = std::make_shared<fabric::SharedBoards>(fabric::shm::make_thread_memory());
  no_failures(testing::run_threads(2, [&](Side& side) {
    RankOfGpus rank(side, vendor, boards);
    body(side, rank);
    side.next_case();
    const auto platform = rank.world.make({}, {});
    const Tensor operand = on_device(platform->device(), 3);
    sum(*platform, operand);
    testing::expect(first_of(platform->device(), operand) == 2, "the ranks cannot add any more");
    side.next_case();  // no rank leaves while another still finalizes
  }));
}

/// Both have a platform when this returns. So the rank that gives up then finds the other rank with one.
std::unique_ptr<Platform> made_by_both(Side& side, RankOfGpus& rank) {
  auto platform = rank.world.make({}, {});
  side.world->barrier("both have a platform");
  return platform;
}

/// Rank 1 gives up after rank 0 has begun what it then waits for. Called by both.
void begun_by_rank_0(Side& side) { side.world->barrier("rank 0 has begun"); }

void give_up(Side& side) {
  side.control.raise_abort(side.epoch.load(),
                           {.culprit = side.rank, .reason = control::AbortReason::failed, .text = "it has had enough"});
}

}  // namespace

TEST_CASE("a rank that waits for a collective of one that has failed is released, and both go on") {
  run_two([](Side& side, RankOfGpus& rank) {
    const auto platform = made_by_both(side, rank);
    const Tensor operand = on_device(platform->device(), 3);
    if (side.rank == 0) sum(*platform, operand);
    begun_by_rank_0(side);
    if (side.rank == 1) return give_up(side);
    const std::string text = thrown<control::Released>([&] { platform->device().synchronize(); });
    testing::expect(text.find("it has had enough") != std::string::npos, text);
  });
}

TEST_CASE("a rank that waits for a communicator to be made is released, and both go on") {
  run_two([](Side& side, RankOfGpus& rank) {
    // Its hosts are not asked: the other one is not there for them, either.
    const auto platform = made_by_both(side, rank);
    if (side.rank == 1) return give_up(side);
    const std::string text = thrown<control::Released>([&] { platform->world().split(0, 0, "all"); });
    testing::expect(text.find("it has had enough") != std::string::npos, text);
  });
}

TEST_CASE("a rank whose work waits at a gate is released, and both ranks go on") {
  run_two([](Side& side, RankOfGpus& rank) {
    const auto platform = made_by_both(side, rank);
    Device& device = platform->device();
    device::cuda::Gpu& gpu = rank.world.gpu();
    const std::uint32_t closed = 0;
    const std::int64_t a_minute = 60'000'000'000;
    if (side.rank == 0) {
      device.submit(Device::compute,
                    {.label = "gate", .run = [&](const Kernels&, NativeStream stream) {
                       gpu.check(gpu.vendor().kernels->gate(&closed, a_minute, gpu.abort_flag(), stream), "gate");
                     }});
    }
    begun_by_rank_0(side);
    if (side.rank == 1) return give_up(side);
    const std::string text = thrown<control::Released>([&] { device.synchronize(); });
    testing::expect(text.find("it has had enough") != std::string::npos, text);
  });
}

TEST_CASE("a rank without work in progress is released as well") {
  run_two([](Side& side, RankOfGpus& rank) {
    const auto platform = made_by_both(side, rank);
    give_up(side);
    try {
      sum(*platform, on_device(platform->device(), 3));
      platform->device().synchronize();
    } catch (const control::Released&) {  // both have come, or one has gone before: either is right
    }
  });
}

TEST_CASE("a rank that leaves by an exception does not wait for the others first") {
  run_two([](Side& side, RankOfGpus& rank) {
    if (side.rank == 0) {
      try {
        const auto platform = made_by_both(side, rank);
        sum(*platform, on_device(platform->device(), 3));
        throw std::runtime_error("its own mistake");  // the collective that it has begun will never end
      } catch (const std::runtime_error&) {
        give_up(side);
      }
    } else {
      const auto platform = made_by_both(side, rank);
      const std::string text = thrown<control::Released>([&] { side.world->barrier("a word with rank 0"); });
      testing::expect(text.find("it has had enough") != std::string::npos, text);
    }
  });
}

TEST_CASE("a deadline names the missing rank") {
  const auto boards = std::make_shared<fabric::SharedBoards>(fabric::shm::make_thread_memory());
  no_failures(testing::run_threads(3, [&](Side& side) {
    RankOfGpus rank(side, device::cuda::cpu::vendor(), boards,
                    std::chrono::milliseconds(side.rank == 2 ? 60'000 : 300));
    std::string text;
    {
      const auto platform = rank.world.make({}, {});
      const Tensor operand = on_device(platform->device(), 3);
      if (side.rank != 2) {
        sum(*platform, operand);
        text = thrown<std::exception>([&] { platform->device().synchronize(); });
      }
      // Rank 2 has nothing to wait for, and stays until the others have seen that.
      side.control.agree(side.rank, {}, std::chrono::steady_clock::now() + std::chrono::seconds(30));
    }
    if (side.rank == 0)
      testing::expect(text.find("rank 2 has posted 0 of 1 calls of group world") != std::string::npos, text);
    side.next_case();
  }));
}

TEST_CASE("a GPU whose communicators cannot be aborted is lost, and says so from then on") {
  static std::mutex lost_mutex;
  const auto boards = std::make_shared<fabric::SharedBoards>(fabric::shm::make_thread_memory());
  static const device::cuda::NcclTable nccl = [] {
    device::cuda::NcclTable table = *device::cuda::cpu::vendor().nccl;
    table.comm_abort = [](device::cuda::CommHandle) -> device::cuda::Status {
      for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    };
    return table;
  }();
  static const device::cuda::VendorTables stuck = [] {
    device::cuda::VendorTables tables = device::cuda::cpu::vendor();
    tables.nccl = &nccl;
    return tables;
  }();
  no_failures(testing::run_threads(2, [&](Side& side) {
    auto rank = std::make_unique<RankOfGpus>(side, stuck, boards, std::chrono::milliseconds(200),
                                             std::chrono::milliseconds(100));
    auto platform = rank->world.make({}, {});
    testing::expect(rank->world.defect().empty(), "defect before anything happened");
    if (side.rank == 0) {
      sum(*platform, on_device(platform->device(), 3));
      thrown<control::DeadlineExceeded>([&] { platform->device().synchronize(); });
      testing::expect(rank->world.gpu().is_lost(), "not lost");
      testing::expect(rank->world.defect().find("is lost") != std::string::npos, rank->world.defect());
      const std::string text = thrown<device::cuda::GpuLost>([&] { platform->device().synchronize(); });
      testing::expect(text.find("its work did not stop when the harness asked") != std::string::npos, text);
    }
    side.control.agree(side.rank, {}, std::chrono::steady_clock::now() + std::chrono::seconds(30));
    rank->world.gpu().abandon();  // rank 1 leaves without a word to rank 0
    // A lost GPU keeps everything, because work may still use it. Here it stays reachable, so the leak check accepts
    // it.
    static auto& lost = *new std::vector<std::pair<std::unique_ptr<RankOfGpus>, std::unique_ptr<Platform>>>;
    const std::lock_guard lock(lost_mutex);
    lost.emplace_back(std::move(rank), std::move(platform));
  }));
}

TEST_CASE("the host reports an index out of range when it synchronizes") {
  const auto boards = std::make_shared<fabric::SharedBoards>(fabric::shm::make_thread_memory());
  no_failures(testing::run_threads(1, [&](Side& side) {
    RankOfGpus rank(side, device::cuda::cpu::vendor(), boards);
    for (int round = 0; round < 2; ++round) {
      const auto platform = rank.world.make({}, {});
      Device& device = platform->device();
      const std::array<std::int64_t, 2> wrong{1, 7};
      const Tensor weight = on_device(device, 8).reshape({4, 2}), out = on_device(device, 4).reshape({2, 2});
      const Tensor ids = device.empty(Device::compute, DType::i64, {2}, MemoryClass::other, "ids");
      device.submit(Device::compute, {.label = "embedding", .run = [&](const Kernels& kernels, NativeStream stream) {
                                        kernels.copy(stream, ids, Tensor::of<std::int64_t>({2}, wrong));
                                        kernels.embedding(stream, out, weight, ids);
                                      }});
      const std::string text = thrown<std::out_of_range>([&] { device.synchronize(); });
      testing::expect(text.find('7') != std::string::npos, text);
      testing::expect(first_of(device, weight) == 1, "it was not told once");
    }
  }));
}

TEST_CASE("a rank reports a failure of each call that sets up its GPU, and each call fails once") {
  device::cuda::GpuContext alone{.rank = 3,
                                 .ordinal = 2,
                                 .check = [] {},
                                 .give_up_at = [](control::Deadline now) { return now + std::chrono::seconds(20); }};
  device::cuda::cpu::plant({});
  {
    const device::cuda::Gpu gpu(device::cuda::cpu::fragile_vendor(), alone);
  }
  const std::map<std::string, int> calls = device::cuda::cpu::calls();
  CHECK(calls.size() > 10);
  for (const auto& [function, count] : calls) {
    for (int call = 1; call <= count; ++call) {
      device::cuda::cpu::plant({{function, call, 77}});
      std::string text;
      try {
        const device::cuda::Gpu gpu(device::cuda::cpu::fragile_vendor(), alone);
      } catch (const std::exception& error) {
        text = error.what();
      }
      const bool is_given_back = function == "stream_destroy" || function == "event_destroy" ||
                                 function == "host_free" || function == "destroy" || function == "free_async";
      CAPTURE(function, call);
      CHECK((is_given_back || !device::cuda::cpu::has_failed() || text.find("status 77") != std::string::npos));
      if (!text.empty()) CHECK_THAT(text, ContainsSubstring("rank 3, GPU 2"));
    }
  }
  device::cuda::cpu::plant({});
  alone.ordinal = 99;
  CHECK_THROWS_WITH(device::cuda::Gpu(device::cuda::cpu::vendor(), alone),
                    "rank 3: there is no GPU 99; this process sees 8");
}

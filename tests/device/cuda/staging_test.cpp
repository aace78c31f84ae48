// Copies from the host through a ring of pinned memory. Replay: --rng-seed N as printed.
#include "harness/device/cuda/staging.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <random>
#include <vector>

using namespace shardproof::device::cuda;
using shardproof::device::cuda::CopyKind;

namespace {

// A GPU that the test drives step by step. Streams are queues, and an event has happened when the queue has reached its
// number.
struct Queues {
  struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
    std::size_t event;
  };
  std::vector<Copy> waiting;
  std::vector<bool> happened;
  Status failing = 0;

  void run(std::size_t which) {
    const Copy copy = waiting[which];
    std::memcpy(copy.to, copy.from, copy.bytes);
    happened[copy.event] = true;
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(which));
  }
};

Queues* queues = nullptr;

EventHandle event_handle(std::size_t event) { return reinterpret_cast<EventHandle>(event + 1); }
std::size_t event_number(EventHandle event) { return reinterpret_cast<std::size_t>(event) - 1; }

std::vector<EventHandle> events_of(Queues& made, std::size_t count) {
  made.happened.assign(count, true);
  std::vector<EventHandle> events;
  for (std::size_t i = 0; i < count; ++i) events.push_back(event_handle(i));
  return events;
}

CudaTable table_of(Queues& made) {
  queues = &made;
  CudaTable table{};
  table.not_ready = 600;
  table.event_query = [](EventHandle event) -> Status { return queues->happened[event_number(event)] ? 0 : 600; };
  table.event_record = [](EventHandle event, StreamHandle) -> Status {
    queues->happened[event_number(event)] = false;
    queues->waiting.back().event = event_number(event);
    return 0;
  };
  table.memcpy_async = [](void* to, const void* from, std::size_t bytes, CopyKind kind, StreamHandle) -> Status {
    REQUIRE(kind == CopyKind::host_to_device);
    if (queues->failing != 0) return queues->failing;
    queues->waiting.push_back({to, from, bytes, 0});
    return 0;
  };
  return table;
}

}  // namespace

TEST_CASE("an upload arrives unchanged, whenever the copy runs and whatever happens to the source") {
  std::mt19937_64 random(Catch::getSeed());
  for (int round = 0; round < 50; ++round) {
    Queues gpu;
    const CudaTable table = table_of(gpu);
    std::array<std::byte, 256> ring{};
    {
      Staging staging(table, ring, events_of(gpu, 4));
      struct Upload {
        std::vector<std::byte> expected, arrived;
      };
      std::vector<Upload> uploads(200);
      const auto is_staged = [&](const Queues::Copy& copy) {
        return std::less_equal<const void*>()(ring.data(), copy.from) &&
               std::less<const void*>()(copy.from, ring.data() + ring.size());
      };
      for (Upload& upload : uploads) {
        std::vector<std::byte> source(1 + random() % 90);
        for (std::byte& byte : source) byte = static_cast<std::byte>(random());
        upload.expected = source;
        upload.arrived.resize(source.size());
        REQUIRE(staging.upload(upload.arrived.data(), source.data(), source.size(), nullptr) == 0);
        // A driver reads what is not pinned before it returns.
        if (!is_staged(gpu.waiting.back())) {
          std::memcpy(upload.arrived.data(), source.data(), source.size());
          gpu.waiting.pop_back();
        }
        std::ranges::fill(source, std::byte{0xEE});
        // Streams go on in any order.
        while (!gpu.waiting.empty() && random() % 3 != 0) gpu.run(random() % gpu.waiting.size());
      }
      while (!gpu.waiting.empty()) gpu.run(0);
      for (const Upload& upload : uploads) REQUIRE(upload.arrived == upload.expected);
    }
  }
}

TEST_CASE("an upload that does not fit goes to the driver, and staging room is reused in turn") {
  Queues gpu;
  const CudaTable table = table_of(gpu);
  std::array<std::byte, 64> ring{};
  Staging staging(table, ring, events_of(gpu, 4));
  std::array<std::byte, 100> source{}, target{};
  const auto goes_through = [&](std::size_t bytes) {
    REQUIRE(staging.upload(target.data(), source.data(), bytes, nullptr) == 0);
    const bool is_staged = gpu.waiting.back().from != source.data();
    if (!is_staged) gpu.waiting.pop_back();
    return is_staged;
  };
  CHECK_FALSE(goes_through(65));
  CHECK(goes_through(40));
  CHECK_FALSE(goes_through(40));
  CHECK(goes_through(24));
  CHECK_FALSE(goes_through(1));
  gpu.run(0);  // the first 40
  CHECK(goes_through(30));
  CHECK_FALSE(goes_through(11));
  CHECK(goes_through(10));
  while (!gpu.waiting.empty()) gpu.run(0);
  CHECK(goes_through(64));
  gpu.run(0);
  for (int i = 0; i < 4; ++i) CHECK(goes_through(1));
  CHECK_FALSE(goes_through(1));  // there are four events
}

TEST_CASE("an upload that fails says so, and takes no room") {
  Queues gpu;
  const CudaTable table = table_of(gpu);
  std::array<std::byte, 64> ring{}, source{}, target{};
  Staging staging(table, ring, events_of(gpu, 4));
  gpu.failing = 719;
  CHECK(staging.upload(target.data(), source.data(), 64, nullptr) == 719);
  gpu.failing = 0;
  CHECK(staging.upload(target.data(), source.data(), 64, nullptr) == 0);
  CHECK(gpu.waiting.back().from == ring.data());
  gpu.run(0);
}

// Kernels as loops over their bodies, on the streams of cpu_runtime.hpp.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "harness/device/cuda/kernels/table.hpp"
#include "tests/device/cuda/cpu_runtime.hpp"

namespace shardproof::device::cuda::cpu {

inline bool is_set(const std::uint32_t* flag) {
  return std::atomic_ref(*const_cast<std::uint32_t*>(flag)).load(std::memory_order_acquire) != 0;
}

struct Loops {
  template <class Body> static Status launch(const Body& body, std::int64_t count, StreamHandle stream) {
    cpu::launch(stream, 0, [body, count] {
      for (std::int64_t i = 0; i < count; ++i) body(i);
    });
    return 0;
  }
  // Time is virtual: the stream's clock advances, and its thread does not wait.
  static Status spin(std::int64_t ns, std::int64_t, const std::uint32_t*, StreamHandle stream) {
    cpu::launch(stream, ns, [] {});
    return 0;
  }
  static Status gate(const std::uint32_t* open_flag, std::int64_t cap_ns, const std::uint32_t* abort_flag,
                     StreamHandle stream) {
    cpu::launch(stream, 0, [=] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(cap_ns);
      while (!is_set(open_flag) && !is_set(abort_flag) && std::chrono::steady_clock::now() < end) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
    });
    return 0;
  }
  static Status warm_up() { return 0; }
};

}  // namespace shardproof::device::cuda::cpu

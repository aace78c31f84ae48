#include "harness/device/cuda/gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "harness/device/cuda/kernels/table.hpp"

namespace shardproof::device::cuda {

Gate::Gate(Gpu& gpu, std::chrono::nanoseconds cap) : gpu_(gpu), cap_(cap) {
  if (cap <= std::chrono::nanoseconds::zero() || cap > longest) {
    throw std::invalid_argument(
        fmt::format("a gate on rank {} cannot hold for {} ns: choose more than 0 and at most {} ns", gpu.rank(),
                    cap.count(), std::chrono::nanoseconds(longest).count()));
  }
  void *on_host = nullptr, *on_device = nullptr;
  gpu_.check(gpu_.cuda().host_allocate(&on_host, &on_device, sizeof *open_), "cudaHostAlloc");
  open_ = new (on_host) std::uint32_t{0};
  on_device_ = static_cast<const std::uint32_t*>(on_device);
}

// If a kernel still reads the word, the word must stay: it is left until the process ends.
Gate::~Gate() {
  open();
  if (all_go_on()) gpu_.cuda().host_free(open_);
  for (EventHandle event : left_) {
    if (has_left(event)) gpu_.give_back(event);
  }
}

bool Gate::all_go_on() noexcept {
  const auto all_left = [this] {
    return std::ranges::all_of(left_, [this](EventHandle event) { return has_left(event); });
  };
  try {
    gpu_.await(all_left, [this] {
      return fmt::format("work that a gate held on rank {} has not continued, although the gate is open", gpu_.rank());
    });
    return true;
  } catch (const std::exception& error) {
    gpu_.complain(error);
    return all_left();
  }
}

bool Gate::has_left(EventHandle event) const { return gpu_.cuda().event_query(event) != gpu_.cuda().not_ready; }

void Gate::hold(StreamHandle stream) {
  // Take the event first: without it, the word could be freed while a kernel still reads it.
  left_.push_back(gpu_.take_event());
  gpu_.check(gpu_.vendor().kernels->gate(on_device_, cap_.count(), gpu_.abort_flag(), stream), "gate", stream);
  if (const Status status = gpu_.cuda().event_record(left_.back(), stream); status != 0) {
    gpu_.abandon();  // opens every gate, and waits until no kernel reads one
    gpu_.check(status, "cudaEventRecord", stream);
  }
}

void Gate::open() noexcept { std::atomic_ref(*open_).store(1, std::memory_order_release); }

bool Gate::holds() const {
  return std::atomic_ref(*open_).load(std::memory_order_relaxed) == 0 &&
         std::ranges::none_of(left_, [this](EventHandle event) { return has_left(event); });
}

}  // namespace shardproof::device::cuda

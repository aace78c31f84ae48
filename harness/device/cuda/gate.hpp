// A gate holds streams back until the host opens it. It proves "this can run before that" without timing. Held work
// cannot have run, so work that ends while the gate is closed did not need it. No stream is held forever: an abandoned
// GPU opens all gates, and each gate has a cap.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "harness/device/cuda/gpu.hpp"

namespace shardproof::device::cuda {

class Gate {
 public:
  static constexpr std::chrono::seconds longest{10};

  /// Makes a closed gate, which holds each stream for at most `cap`. Throws VendorError.
  explicit Gate(Gpu& gpu, std::chrono::nanoseconds cap = longest);
  /// Opens the gate, and waits until no kernel reads its word any more.
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Holds a stream of the GPU from here on: work that is put on it afterwards runs when the gate opens. Kernels that
  /// run while the gate is closed must have been loaded before (KernelTable::warm_up). Meanwhile the host must not
  /// allocate or free pinned memory (`host_allocate`, `host_free`).
  void hold(StreamHandle stream);
  /// Opens the gate for good. A stream that is held later runs at once.
  void open() noexcept;

  /// Whether every stream is still held back: the evidence. False after the gate was opened, after a cap was over, or
  /// after the GPU was abandoned.
  bool holds() const;

 private:
  bool has_left(EventHandle event) const;
  /// Waits for the held streams of an open gate. Returns false if a stream is still held.
  bool all_go_on() noexcept;

  Gpu& gpu_;
  std::chrono::nanoseconds cap_;
  std::uint32_t* open_ = nullptr;  // the host's address
  const std::uint32_t* on_device_ = nullptr;  // the same word, as kernels see it
  std::vector<EventHandle> left_;  // each happens when the kernel that holds a stream has ended
};

}  // namespace shardproof::device::cuda

// A gate holds streams back until the host opens it: with it "this can run before that" is proven, not timed. Work behind a closed gate
// cannot have run; what ends while the gate is closed needed none of it. Nothing that is held stays so for ever: an abandoned GPU opens all
// gates, and each has a cap.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "harness/device/cuda/gpu.hpp"

namespace shardproof::cuda {

class Gate {
 public:
  static constexpr std::chrono::seconds longest{10};

  /// Closed. `cap`: what each stream is held for at most. Throws VendorError.
  explicit Gate(Gpu& gpu, std::chrono::nanoseconds cap = longest);
  /// Opens, and waits until no kernel looks at the gate any more.
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  /// Holds the stream, one of the GPU's, from here on: what is put on it afterwards runs when the gate opens. What is to run while the gate
  /// is closed must have been loaded before (KernelTable::warm_up), and no memory of the host may be allocated or freed meanwhile.
  void hold(StreamHandle stream);
  /// For good; what is held later runs at once.
  void open() noexcept;

  /// Whether every stream is still held back: the evidence. False once it was opened, when a cap was over, or when the GPU was abandoned.
  bool holds() const;

 private:
  bool has_left(EventHandle event) const;
  /// Waits for what is held, which is open; false where something is held all the same.
  bool all_go_on() noexcept;

  Gpu& gpu_;
  std::chrono::nanoseconds cap_;
  std::uint32_t* open_ = nullptr;  // the host's address
  const std::uint32_t* on_device_ = nullptr;  // the same word, as kernels see it
  std::vector<EventHandle> left_;  // happens when the kernel that holds a stream is gone
};

}  // namespace shardproof::cuda

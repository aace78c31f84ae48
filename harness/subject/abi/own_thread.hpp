// The thread that a rank calls its subject in. Nothing is locked behind the boundary, so no other one may call the harness.
#pragma once

#include <atomic>
#include <thread>

namespace shardproof::abi {

class OwnThread {
 public:
  static constexpr char objection[] =
      "a function of the harness was called in another thread than the subject: only the one that a rank calls its subject in may call it";

  /// Whether it is the one that this was made in. If not, that is remembered.
  bool is_this() noexcept {
    if (std::this_thread::get_id() == own_) return true;
    has_strayed_.store(true, std::memory_order_relaxed);
    return false;
  }
  /// Whether another one has asked since this was called last.
  bool take_stray() noexcept { return has_strayed_.exchange(false, std::memory_order_relaxed); }

 private:
  const std::thread::id own_ = std::this_thread::get_id();
  std::atomic<bool> has_strayed_ = false;
};

}  // namespace shardproof::abi

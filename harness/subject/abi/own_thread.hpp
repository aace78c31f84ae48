// Identifies the thread in which a rank calls its subject. Nothing is locked on the harness's side of the boundary, so
// no other thread may call the harness.
#pragma once

#include <atomic>
#include <thread>

namespace shardproof::subject::abi {

class OwnThread {
 public:
  static constexpr char objection[] =
      "the subject called a harness function in another thread: call it only in the thread in which the rank calls the "
      "subject";

  /// Whether the calling thread is the thread that made this object. Remembers a call in another thread.
  bool is_this() noexcept {
    if (std::this_thread::get_id() == own_) return true;
    has_strayed_.store(true, std::memory_order_relaxed);
    return false;
  }
  /// Whether another thread has called `is_this` since the last call of this function.
  bool take_stray() noexcept { return has_strayed_.exchange(false, std::memory_order_relaxed); }

 private:
  const std::thread::id own_ = std::this_thread::get_id();
  std::atomic<bool> has_strayed_ = false;
};

}  // namespace shardproof::subject::abi

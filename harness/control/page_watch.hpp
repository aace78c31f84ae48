// PageWatch makes the changes of a control page visible to a poll loop. A launcher or a guard has one where it must
// notice what ranks of other processes report: an abort, the end of the world, and the end of a rank.
#pragma once

#include <atomic>
#include <thread>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/doorbell.hpp"

namespace shardproof::control {

class PageWatch {
 public:
  /// Starts a thread that sleeps on `bell` and takes no signals. `bell` must outlive this object. Throws
  /// std::system_error.
  explicit PageWatch(Doorbell& bell);
  ~PageWatch();
  PageWatch(const PageWatch&) = delete;
  PageWatch& operator=(const PageWatch&) = delete;

  /// Readable after each ring since the last `clear`, and after rings that came before this object.
  int descriptor() const { return event_.get(); }
  /// Call it before you read the page: a change that comes later makes the descriptor readable again.
  void clear();

 private:
  void watch();

  Doorbell& bell_;
  base::FileDescriptor event_;  ///< an eventfd
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace shardproof::control

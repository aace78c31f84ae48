// One wait for everything that can happen to a launcher: a descriptor becomes readable, or a deadline passes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/base/file_descriptor.hpp"
#include "harness/control/doorbell.hpp"  // Deadline

namespace shardproof::launcher {

class Poller {
 public:
  Poller();

  /// Readable when one of those that were added is: what waits for several pollers adds theirs.
  int descriptor() const { return epoll_.get(); }

  /// The descriptor stays the caller's, who removes it before closing it.
  void add(int descriptor, std::uint64_t key);
  void remove(int descriptor);

  /// The keys of readable descriptors; empty when the deadline passed first. No deadline waits for ever.
  std::vector<std::uint64_t> wait(std::optional<Deadline> deadline);

 private:
  FileDescriptor epoll_;
};

}  // namespace shardproof::launcher

// One wait for all events that a launcher handles: a descriptor becomes readable, or a deadline passes.
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

  /// Readable when an added descriptor is. A poller of several pollers adds this descriptor.
  int descriptor() const { return epoll_.get(); }

  /// The caller keeps the descriptor, and removes it before closing it.
  void add(int descriptor, std::uint64_t key);
  void remove(int descriptor);

  /// The keys of readable descriptors. Empty: the deadline passed first. Without a deadline, waits forever.
  std::vector<std::uint64_t> wait(std::optional<control::Deadline> deadline);

 private:
  base::FileDescriptor epoll_;
};

}  // namespace shardproof::launcher

// Saves the registers and the stack of a rank that a signal ends (protocol/crash_record.hpp). The handler itself does
// not unwind the stack: that needs locks and memory, which the crashed code may hold. The launcher unwinds it.
#pragma once

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>

namespace shardproof::runner {

/// From now on, the first crash of this process leaves a record of its rank in the rendezvous directory. Then the
/// signal has its default effect: the process ends as it would without the handler. Leaves alone each signal that other
/// code already handles, and writes these signals to a file. No `rank`: all ranks are threads of this process. Its
/// files then have the name of rank 0.
///
/// A forked child of the process leaves no record.
void save_crashes(const std::filesystem::path& rendezvous, std::optional<int> rank);

/// Makes the calling thread known as the thread of a rank, and gives it an alternate stack. So even an overflow of its
/// stack leaves a record. Destroy it in the same thread.
class RankThread {
 public:
  explicit RankThread(int rank);
  ~RankThread();
  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;

 private:
  int rank_;
  std::unique_ptr<std::byte[]> stack_;  ///< nullptr: the thread had an alternate stack
};

}  // namespace shardproof::runner

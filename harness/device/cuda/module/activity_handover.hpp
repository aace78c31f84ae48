// Collects the records that CUPTI hands over, from its own threads and in its own order, until the caller takes them. A
// record says what ran, with the id that was pushed at its launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "harness/device/cuda/module/cupti_library.hpp"
#include "harness/device/cuda/vendor.hpp"

namespace shardproof::device::cuda {

/// The longest record of each kind in the header.
#if CUPTI_API_VERSION >= 130000
using KernelRecord = CUpti_ActivityKernel10;
#else
using KernelRecord = CUpti_ActivityKernel9;
#endif
#if CUPTI_API_VERSION >= 26
using CopyRecord = CUpti_ActivityMemcpy6;
#else
using CopyRecord = CUpti_ActivityMemcpy5;
#endif
using MemsetRecord = CUpti_ActivityMemset4;

class ActivityHandover {
 public:
  /// Ids of other kinds belong to other code.
  static constexpr CUpti_ExternalCorrelationKind our_ids = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

  explicit ActivityHandover(const CuptiLibrary& library) : library_(library) {}

  /// Reads a buffer of records. CUPTI calls it from any thread.
  void read(std::uint8_t* buffer, std::size_t bytes) noexcept;
  /// See ActivityTable::flush. The status is the first read error since the last call.
  Status take(const ActivityRecord** records, std::size_t* count, std::size_t* dropped);

 private:
  struct Launched {
    std::uint32_t call;  // of the runtime or the driver
    ActivityRecord record;
  };
  struct Read {
    std::vector<Launched> records;
    std::unordered_map<std::uint32_t, std::uint64_t> ids;  // by call
  };
  template <class Record> static void add_span(Read& read, const Record& record);
  static void add(Read& read, const CUpti_Activity& record);
  void count_dropped();
  void fail(CUptiResult status);

  const CuptiLibrary& library_;
  std::mutex mutex_;  // never held during a call of CUPTI: CUPTI calls `read` under its own locks
  Read waiting_;
  std::vector<ActivityRecord> handed_over_;
  std::size_t dropped_ = 0;
  CUptiResult error_ = CUPTI_SUCCESS;
};

}  // namespace shardproof::device::cuda

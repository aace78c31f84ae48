#include "harness/device/cuda/module/activity_handover.hpp"

#include <new>
#include <utility>

namespace shardproof::device::cuda {

namespace {

// CUPTI hands over the longest records of a kind that it knows. Each version may append fields to a record. So this
// file reads only the first fields, and they must keep their old offsets.
static_assert(offsetof(KernelRecord, start) == 16 && offsetof(KernelRecord, end) == 24 &&
              offsetof(KernelRecord, streamId) == 48 && offsetof(KernelRecord, correlationId) == 92);
static_assert(offsetof(CopyRecord, start) == 16 && offsetof(CopyRecord, end) == 24 &&
              offsetof(CopyRecord, streamId) == 40 && offsetof(CopyRecord, correlationId) == 44);
static_assert(offsetof(MemsetRecord, start) == 16 && offsetof(MemsetRecord, end) == 24 &&
              offsetof(MemsetRecord, streamId) == 40 && offsetof(MemsetRecord, correlationId) == 44);

}  // namespace

template <class Record>
void ActivityHandover::add_span(Read& read, const Record& record) {
  read.records.push_back({.call = record.correlationId,
                          .record = {.id = 0,
                                     .stream = record.streamId,
                                     .start_ns = static_cast<std::int64_t>(record.start),
                                     .end_ns = static_cast<std::int64_t>(record.end)}});
}

void ActivityHandover::add(Read& read, const CUpti_Activity& record) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: add_span(read, reinterpret_cast<const KernelRecord&>(record)); break;
    case CUPTI_ACTIVITY_KIND_MEMCPY: add_span(read, reinterpret_cast<const CopyRecord&>(record)); break;
    case CUPTI_ACTIVITY_KIND_MEMSET: add_span(read, reinterpret_cast<const MemsetRecord&>(record)); break;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& external = reinterpret_cast<const CUpti_ActivityExternalCorrelation&>(record);
      if (external.externalKind == our_ids) read.ids[external.correlationId] = external.externalId;
      break;
    }
    default: break;  // calls of the runtime and the driver
  }
}

void ActivityHandover::read(std::uint8_t* buffer, std::size_t bytes) noexcept {
  CUptiResult status = CUPTI_SUCCESS;
  try {
    Read read;
    CUpti_Activity* record = nullptr;
    while ((status = library_.next_record(buffer, bytes, &record)) == CUPTI_SUCCESS) add(read, *record);
    const std::lock_guard lock(mutex_);
    waiting_.records.insert(waiting_.records.end(), read.records.begin(), read.records.end());
    waiting_.ids.insert(read.ids.begin(), read.ids.end());
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(mutex_);
    ++dropped_;
  }
  // An incomplete record also ends a buffer. The caller that misses it reports that.
  if (status != CUPTI_SUCCESS && status != CUPTI_ERROR_MAX_LIMIT_REACHED && status != CUPTI_ERROR_INVALID_KIND)
    fail(status);
  count_dropped();
}

// Ids and their records come in any order, and in different buffers.
Status ActivityHandover::take(const ActivityRecord** records, std::size_t* count, std::size_t* dropped) {
  count_dropped();
  const std::lock_guard lock(mutex_);
  const Read read = std::exchange(waiting_, {});
  handed_over_.clear();
  for (const Launched& launched : read.records) {
    ActivityRecord& record = handed_over_.emplace_back(launched.record);
    if (const auto id = read.ids.find(launched.call); id != read.ids.end()) record.id = id->second;
  }
  *records = handed_over_.data();
  *count = handed_over_.size();
  *dropped = std::exchange(dropped_, 0);
  return std::exchange(error_, CUPTI_SUCCESS);
}

void ActivityHandover::count_dropped() {
  std::size_t lost = 0;
  const CUptiResult status = library_.dropped_records(nullptr, 0, &lost);
  if (status != CUPTI_SUCCESS) return fail(status);
  const std::lock_guard lock(mutex_);
  dropped_ += lost;
}

void ActivityHandover::fail(CUptiResult status) {
  const std::lock_guard lock(mutex_);
  if (error_ == CUPTI_SUCCESS) error_ = status;
}

}  // namespace shardproof::device::cuda

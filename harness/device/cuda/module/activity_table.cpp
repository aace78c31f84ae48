#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "harness/device/cuda/module/activity_handover.hpp"
#include "harness/device/cuda/module/tables.hpp"

namespace shardproof::device::cuda {

namespace {

static_assert(CUPTI_SUCCESS == 0);

// CUPTI attaches ids to calls of the runtime and of the driver, so these are recorded, too.
constexpr CUpti_ActivityKind recorded_kinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,    CUPTI_ACTIVITY_KIND_MEMCPY,  CUPTI_ACTIVITY_KIND_MEMSET};
constexpr std::size_t buffer_bytes = std::size_t{4} << 20;  // CUPTI requests another buffer when it is full

const CuptiLibrary& cupti() { return found_cupti().library; }

// Never destroyed, because CUPTI may hand over records until the process ends.
ActivityHandover& handover() {
  static auto& of_this_process = *new ActivityHandover(cupti());
  return of_this_process;
}

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* bytes, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::malloc(buffer_bytes));  // nullptr: CUPTI drops records, and counts them
  *bytes = *buffer == nullptr ? 0 : buffer_bytes;
  *most_records = 0;  // as many as there is room for
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t valid_bytes) {
  if (valid_bytes > 0) handover().read(buffer, valid_bytes);
  std::free(buffer);
}

Status stop() {
  Status failed = CUPTI_SUCCESS;
  for (const CUpti_ActivityKind kind : recorded_kinds) {
    const CUptiResult status = cupti().disable(kind);
    if (failed == CUPTI_SUCCESS) failed = status;
  }
  return failed;
}

Status start() {
  if (const CUptiResult status = cupti().register_callbacks(give_buffer, take_buffer); status != CUPTI_SUCCESS)
    return status;
  for (const CUpti_ActivityKind kind : recorded_kinds) {
    const CUptiResult status = cupti().enable(kind);
    if (status == CUPTI_SUCCESS) continue;
    stop();
    return status;
  }
  return CUPTI_SUCCESS;
}

Status push_id(std::uint64_t id) { return cupti().push_id(ActivityHandover::our_ids, id); }
Status pop_id() { return cupti().pop_id(ActivityHandover::our_ids, nullptr); }

// Flushes complete buffers first, then the rest by force. After work has ended, no record of it should be incomplete.
// CUPTI hands over a buffer with an incomplete record only by force.
Status flush(const ActivityRecord** records, std::size_t* count, std::size_t* dropped) {
  for (const std::uint32_t how : {0U, static_cast<std::uint32_t>(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED)}) {
    if (const CUptiResult status = cupti().flush_all(how); status != CUPTI_SUCCESS) return status;
  }
  return handover().take(records, count, dropped);
}

const char* cupti_error_name(Status status) {
  const char* name = nullptr;
  return cupti().result_string(static_cast<CUptiResult>(status), &name) == CUPTI_SUCCESS && name != nullptr
             ? name
             : "an unknown status";
}

// CUPTI's own texts say less than the most frequent cause.
const char* cupti_error_text(Status status) {
  switch (status) {
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
    case CUPTI_ERROR_HARDWARE_BUSY: return "another profiler uses CUPTI in this process; only one can";
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
    case CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES:
      return "this user, or this virtual machine, may not profile";
    case CUPTI_ERROR_OUT_OF_MEMORY: return "there is no memory for records";
    default: return "times from events (--times events) need no CUPTI";
  }
}

}  // namespace

const ActivityTable* activity_table(const char** why) {
  if (const std::string& objection = found_cupti().objection; !objection.empty()) {
    *why = objection.c_str();
    return nullptr;
  }
  static constexpr ActivityTable table{.start = start,
                                       .stop = stop,
                                       .push_id = push_id,
                                       .pop_id = pop_id,
                                       .flush = flush,
                                       .error_name = cupti_error_name,
                                       .error_text = cupti_error_text};
  return &table;
}

}  // namespace shardproof::device::cuda

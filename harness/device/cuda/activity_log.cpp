#include "harness/device/cuda/activity_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "harness/device/cuda/gpu.hpp"
#include "harness/device/cuda/vendor_error.hpp"

namespace shardproof::device::cuda {

namespace {

bool has_times(const ActivityRecord& record) { return record.start_ns != 0 && record.end_ns >= record.start_ns; }

bool is_piece(std::uint64_t id) { return id % 2 == 0; }

void add(ActivitySpan& span, const ActivityRecord& record) {
  if (!has_times(record)) {
    ++span.untimed;
    return;
  }
  span.start_ns = span.records == 0 ? record.start_ns : std::min(span.start_ns, record.start_ns);
  span.end_ns = std::max(span.end_ns, record.end_ns);
  ++span.records;
}

}  // namespace

std::map<std::uint64_t, ActivitySpan> spans_by_piece(std::span<const ActivityRecord> records) {
  std::vector<const ActivityRecord*> sorted;
  sorted.reserve(records.size());
  for (const ActivityRecord& record : records) sorted.push_back(&record);
  std::ranges::stable_sort(sorted, {}, &ActivityRecord::start_ns);
  std::map<std::uint64_t, ActivitySpan> spans;
  std::map<std::uint64_t, std::uint64_t> pieces;  // by stream: the piece that owns records without an id
  for (const ActivityRecord* record : sorted) {
    // A record without a time has no position on the stream either.
    if (record->id == 0 && !has_times(*record)) continue;
    if (record->id != 0 && has_times(*record)) pieces[record->stream] = record->id - (is_piece(record->id) ? 0 : 1);
    const std::uint64_t id = record->id != 0 ? record->id : pieces[record->stream];
    if (id != 0 && is_piece(id)) add(spans[id], *record);
  }
  return spans;
}

ActivityLog::ActivityLog(const ActivityTable& table, Gpu& gpu) : table_(table), gpu_(gpu) {
  check(table_.start(), "cuptiActivityEnable");
}

ActivityLog::~ActivityLog() {
  try {
    check(table_.stop(), "cuptiActivityDisable");
  } catch (const std::exception& error) {
    gpu_.complain(error);
  }
}

void ActivityLog::check(Status status, std::string_view operation, std::source_location location) const {
  if (status == 0) return;
  throw VendorError("CUPTI", status, fmt::format("{}: {}", table_.error_name(status), table_.error_text(status)),
                    {operation, gpu_.rank(), gpu_.name(), {}, location});
}

ActivityLog::Scope::Scope(ActivityLog* log, std::uint64_t id) : log_(log) {
  if (log_ != nullptr) log_->check(log_->table_.push_id(id), "cuptiActivityPushExternalCorrelationId");
}

ActivityLog::Scope::~Scope() {
  if (log_ == nullptr) return;
  try {
    log_->check(log_->table_.pop_id(), "cuptiActivityPopExternalCorrelationId");
  } catch (const std::exception& error) {
    log_->gpu_.complain(error);
  }
}

std::span<const ActivityRecord> ActivityLog::flush(std::size_t& dropped) {
  const ActivityRecord* records = nullptr;
  std::size_t count = 0;
  check(table_.flush(&records, &count, &dropped), "cuptiActivityFlushAll");
  return {records, count};
}

std::map<std::uint64_t, ActivitySpan> ActivityLog::take_spans() {
  std::size_t dropped = 0;
  const std::span<const ActivityRecord> records = flush(dropped);
  if (dropped > 0) {
    throw std::runtime_error(
        fmt::format("CUPTI on rank {}, {}: {} records were lost for lack of memory, so times would be incomplete; play "
                    "less at a time, or take times from events (--times events)",
                    gpu_.rank(), gpu_.name(), dropped));
  }
  return spans_by_piece(records);
}

void ActivityLog::forget() noexcept {
  try {
    std::size_t dropped = 0;
    flush(dropped);
  } catch (const std::exception& error) {
    gpu_.complain(error);
  }
}

}  // namespace shardproof::device::cuda

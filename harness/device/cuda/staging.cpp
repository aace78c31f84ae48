#include "harness/device/cuda/staging.hpp"

#include <cstring>

namespace shardproof::device::cuda {

Status Staging::free_what_was_read() {
  while (!claims_.empty()) {
    const Status status = cuda_.event_query(claims_.front().read);
    if (status != 0) return status == cuda_.not_ready ? 0 : status;
    free_events_.push_back(claims_.front().read);
    claims_.pop_front();
  }
  return 0;
}

std::size_t Staging::find_room(std::size_t bytes) const {
  const std::size_t none = memory_.size();
  if (claims_.empty()) return bytes <= memory_.size() ? 0 : none;
  const std::size_t oldest = claims_.front().begin, next = claims_.back().end;
  if (next <= oldest) return next + bytes <= oldest ? next : none;  // the ring has wrapped around
  if (next + bytes <= memory_.size()) return next;
  return bytes <= oldest ? 0 : none;
}

Status Staging::upload(void* to, const void* from, std::size_t bytes, StreamHandle stream) {
  if (const Status status = free_what_was_read(); status != 0) return status;
  const std::size_t begin = find_room(bytes);
  if (begin == memory_.size() || free_events_.empty())
    return cuda_.memcpy_async(to, from, bytes, CopyKind::host_to_device, stream);
  std::byte* const staged = memory_.data() + begin;
  std::memcpy(staged, from, bytes);
  if (const Status status = cuda_.memcpy_async(to, staged, bytes, CopyKind::host_to_device, stream); status != 0)
    return status;
  claims_.push_back({begin, begin + bytes, free_events_.back()});
  free_events_.pop_back();
  // If this fails, the event looks as if it had happened, and the bytes count as free. The caller then gets an error
  // and does not need them.
  return cuda_.event_record(claims_.back().read, stream);
}

}  // namespace shardproof::device::cuda

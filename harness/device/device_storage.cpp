#include "harness/device/device_storage.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <variant>

namespace shardproof::device {

void DeviceStorage::describe(Trace& trace, MemoryClass memory, std::string_view label) {
  label_ = label;
  if (fact_ >= trace.facts.size()) return;
  auto* const allocated = std::get_if<fact::Allocated>(&trace.facts[fact_]);
  if (allocated == nullptr || allocated->buffer != buffer()) return;
  allocated->memory = memory;
  allocated->label = label;
}

DeviceStorage& live_storage(const std::shared_ptr<Storage>& storage, const void* device, std::string_view operation,
                            int rank) {
  auto* const memory = dynamic_cast<DeviceStorage*>(storage.get());
  if (memory == nullptr || !memory->belongs_to(device)) {
    throw std::invalid_argument(fmt::format("{} on rank {}: {} was not allocated on this device", operation, rank,
                                            storage ? fmt::format("buffer {}", storage->buffer()) : "no storage"));
  }
  if (memory->is_released()) {
    throw std::logic_error(fmt::format("{} on rank {}: buffer {} \"{}\" was released before", operation, rank,
                                       memory->buffer(), memory->label()));
  }
  return *memory;
}

}  // namespace shardproof::device

#include "harness/subject/abi/engine_side.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <unordered_set>
#include <utility>
#include <vector>

#include "harness/fabric/group.hpp"
#include "harness/subject/abi/words.hpp"

namespace shardproof::subject::abi {

void Link::check(shardproof_status status) const {
  if (status != SHARDPROOF_OK) throw std::runtime_error(harness_->error(device_));
}

// A buffer of the harness. Two memories are the same if their buffers have the same address in the harness.
class EngineSideDevice::Memory final : public Storage {
 public:
  /// `own`: the stream to release it on, when no object here holds it any more. Empty: the harness owns it.
  Memory(std::shared_ptr<Link> link, shardproof_buffer* buffer, std::optional<std::uint32_t> own)
      : Storage(static_cast<std::byte*>(link->harness().data(buffer)), link->harness().bytes(buffer),
                reinterpret_cast<std::uintptr_t>(buffer)),
        link_(std::move(link)),
        buffer_(buffer),
        own_(own) {}
  ~Memory() override {
    if (!link_->is_open() || is_released_) return;
    const shardproof_harness& harness = link_->harness();
    for (; holds_ > 0; --holds_) harness.let_go(link_->device(), buffer_);
    // The harness records a failure of this call.
    if (own_) harness.release(link_->device(), *own_, buffer_);
  }

  shardproof_buffer* handle() const { return buffer_; }
  const Link& link() const { return *link_; }
  void hold() { ++holds_; }
  void release(std::uint32_t stream) { release(link_->harness().release, stream); }
  void release_to_cache(std::uint32_t stream) { release(link_->harness().release_to_cache, stream); }

 private:
  std::shared_ptr<Link> link_;
  shardproof_buffer* buffer_;
  std::optional<std::uint32_t> own_;
  int holds_ = 0;
  bool is_released_ = false;

  void release(decltype(shardproof_harness::release) by, std::uint32_t stream) {
    link_->check(by(link_->device(), stream, buffer_));
    is_released_ = true;
  }
};

EngineSideDevice::EngineSideDevice(const shardproof_engine_context& engine_context)
    : link_(std::make_shared<Link>(engine_context)) {}
EngineSideDevice::~EngineSideDevice() { link_->close(); }

// -- Streams and work -------------------------------------------------------------------------------------------------

Stream EngineSideDevice::create_stream(StreamRole role, std::string_view name) {
  std::uint32_t id = 0;
  link_->check(link_->harness().create_stream(link_->device(), to_c(role), std::string(name).c_str(), &id));
  return {id, role};
}

void EngineSideDevice::submit(Stream stream, Work work) {
  struct Context {
    const Work& work;
    const shardproof_harness& harness;
  } context{work, link_->harness()};
  const auto run = [](void* self, void* native, shardproof_reply* reply) -> shardproof_status {
    const auto& [given, harness] = *static_cast<Context*>(self);
    try {
      given.run(cpu_kernels(), native);
      return SHARDPROOF_OK;
    } catch (const std::exception& error) {
      harness.fail(reply, error.what());
      return SHARDPROOF_FAILED;
    }
  };
  const std::vector<shardproof_span> reads = spans(work.reads), writes = spans(work.writes);
  const shardproof_work given{.kind = to_c(work.kind),
                              .label = work.label.c_str(),
                              .reads = reads.data(),
                              .writes = writes.data(),
                              .read_count = reads.size(),
                              .write_count = writes.size(),
                              .cost_ns = work.cost,
                              .run = work.run ? +run : nullptr,
                              .context = &context};
  link_->check(link_->harness().submit(link_->device(), stream.id, &given));
}

Event EngineSideDevice::record(Stream stream) {
  Event event;
  link_->check(link_->harness().record(link_->device(), stream.id, &event.id));
  return event;
}

void EngineSideDevice::wait(Stream stream, Event event) {
  link_->check(link_->harness().wait(link_->device(), stream.id, event.id));
}
void EngineSideDevice::synchronize(Stream stream) {
  link_->check(link_->harness().synchronize_stream(link_->device(), stream.id));
}
void EngineSideDevice::synchronize(Event event) {
  link_->check(link_->harness().synchronize_event(link_->device(), event.id));
}
void EngineSideDevice::synchronize() { link_->check(link_->harness().synchronize(link_->device())); }

void EngineSideDevice::host_access(std::string_view label, const std::vector<Tensor>& reads,
                                   const std::vector<Tensor>& writes) {
  const std::vector<shardproof_span> read = spans(reads), written = spans(writes);
  link_->check(link_->harness().host_access(link_->device(), std::string(label).c_str(), read.data(), read.size(),
                                            written.data(), written.size()));
}

void EngineSideDevice::mark(std::string_view text) {
  throw std::logic_error(fmt::format("mark \"{}\": a subject must not mark phases", text));
}

// -- Memory -----------------------------------------------------------------------------------------------------------

std::shared_ptr<Storage> EngineSideDevice::allocate(Stream stream, std::size_t bytes, MemoryClass memory,
                                                    std::string_view label) {
  shardproof_buffer* buffer = nullptr;
  link_->check(
      link_->harness().allocate(link_->device(), stream.id, bytes, to_c(memory), std::string(label).c_str(), &buffer));
  return remember(std::make_shared<Memory>(link_, buffer, stream.id));
}

std::shared_ptr<Storage> EngineSideDevice::adopt(Stream stream, std::byte* data, std::size_t bytes, MemoryClass memory,
                                                 std::string_view label) {
  shardproof_buffer* buffer = nullptr;
  link_->check(link_->harness().adopt(link_->device(), stream.id, data, bytes, to_c(memory), std::string(label).c_str(),
                                      &buffer));
  return remember(std::make_shared<Memory>(link_, buffer, stream.id));
}

void EngineSideDevice::release(Stream stream, const std::shared_ptr<Storage>& storage) {
  Memory& released = own(storage, "release");
  memories_.erase(released.handle());
  released.release(stream.id);
}

void EngineSideDevice::release_to_cache(Stream stream, const std::shared_ptr<Storage>& storage) {
  Memory& released = own(storage, "release_to_cache");
  memories_.erase(released.handle());
  released.release_to_cache(stream.id);
}

void EngineSideDevice::describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label) {
  link_->check(link_->harness().describe(link_->device(), own(storage, "describe").handle(), to_c(memory),
                                         std::string(label).c_str()));
}

std::shared_ptr<EngineSideDevice::Memory> EngineSideDevice::remember(std::shared_ptr<Memory> memory) {
  memories_[memory->handle()] = memory;
  return memory;
}

std::shared_ptr<EngineSideDevice::Memory> EngineSideDevice::known(shardproof_buffer* buffer) const {
  const auto found = memories_.find(buffer);
  return found == memories_.end() ? nullptr : found->second.lock();
}

EngineSideDevice::Memory& EngineSideDevice::own(const std::shared_ptr<Storage>& storage,
                                                std::string_view operation) const {
  auto* const memory = dynamic_cast<Memory*>(storage.get());
  if (memory == nullptr || &memory->link() != link_.get())
    throw std::invalid_argument(fmt::format("{}: that storage was not allocated on this device", operation));
  return *memory;
}

Tensor EngineSideDevice::take(const shardproof_tensor& tensor) {
  const DLTensor& view = tensor.view;
  if (is_undefined(view)) return {};
  const DType dtype = dtype_from_c(view.dtype);
  Shape shape(view.shape, view.shape + view.ndim);
  auto* const data = static_cast<std::byte*>(view.data) + view.byte_offset;
  if (tensor.buffer == nullptr) {
    const std::size_t bytes = static_cast<std::size_t>(numel(shape)) * size_of(dtype);
    return {host_memory(data, bytes), dtype, std::move(shape)};
  }
  std::shared_ptr<Memory> memory = known(tensor.buffer);
  if (!memory) memory = remember(std::make_shared<Memory>(link_, tensor.buffer, std::nullopt));
  const std::size_t offset = numel(shape) == 0 ? 0 : static_cast<std::size_t>(data - memory->data());
  return {std::move(memory), dtype, std::move(shape), offset};
}

std::vector<Tensor> EngineSideDevice::take_answer(std::span<const shardproof_tensor> tensors) {
  std::vector<Tensor> taken;
  std::unordered_set<const Memory*> held;
  for (const shardproof_tensor& tensor : tensors) {
    taken.push_back(take(tensor));
    if (tensor.buffer == nullptr) continue;
    Memory& memory = own(taken.back().storage(), "an answer of a hook");
    if (held.insert(&memory).second) memory.hold();
  }
  return taken;
}

shardproof_tensor EngineSideDevice::give(const Tensor& tensor, Shapes& shapes) const {
  shardproof_tensor given{.view = view_of(tensor, shapes), .buffer = nullptr};
  if (tensor.defined() && tensor.storage()->buffer() != 0)
    given.buffer = own(tensor.storage(), "a tensor for the harness").handle();
  return given;
}

// Spans do not describe host memory, so its span is empty.
shardproof_span EngineSideDevice::span(const Tensor& tensor) const {
  shardproof_span span{.buffer = nullptr, .offset = 0, .count = 0, .dtype = to_c(tensor.dtype())};
  if (!tensor.defined() || tensor.storage()->buffer() == 0) return span;
  span.buffer = own(tensor.storage(), "memory that work touches").handle();
  span.offset = tensor.range().offset;
  span.count = static_cast<std::uint64_t>(tensor.numel());
  return span;
}

std::vector<shardproof_span> EngineSideDevice::spans(const std::vector<Tensor>& tensors) const {
  std::vector<shardproof_span> spans;
  std::ranges::transform(tensors, std::back_inserter(spans), [this](const Tensor& tensor) { return span(tensor); });
  return spans;
}

// -- Collectives ------------------------------------------------------------------------------------------------------

EngineSideCommunicator::EngineSideCommunicator(const EngineSideDevice& device, shardproof_group* group, bool is_part)
    : device_(device), link_(device.link()), group_(group), is_part_(is_part) {
  const int* const first = link_->harness().group_members(group);
  members_.assign(first, first + link_->harness().group_size(group));
}

EngineSideCommunicator::~EngineSideCommunicator() {
  if (is_part_ && link_->is_open()) link_->harness().drop_group(group_);
}

int EngineSideCommunicator::rank() const { return link_->harness().group_rank(group_); }

const FabricCapabilities& EngineSideCommunicator::capabilities() const {
  static constexpr FabricCapabilities unknown{};
  return unknown;
}

shardproof_collective EngineSideCommunicator::given(const Collective& collective) const {
  return {.kind = to_c(collective.kind),
          .op = to_c(collective.op),
          .factor = collective.factor,
          .root = collective.root,
          .in = device_.span(collective.in),
          .out = device_.span(collective.out),
          .tag = collective.tag.c_str()};
}

void EngineSideCommunicator::run(Stream stream, const Collective& collective) {
  const shardproof_collective call = given(collective);
  link_->check(link_->harness().run(group_, stream.id, &call));
}

void EngineSideCommunicator::run_coalesced(Stream stream, std::span<const Collective> collectives) {
  const shardproof_harness& harness = link_->harness();
  // An older harness lacks the function.
  if (harness.size <= offsetof(shardproof_harness, run_coalesced))
    return Communicator::run_coalesced(stream, collectives);
  std::vector<shardproof_collective> calls;
  for (const Collective& collective : collectives) calls.push_back(given(collective));
  link_->check(harness.run_coalesced(group_, stream.id, calls.data(), calls.size()));
}

std::unique_ptr<Communicator> EngineSideCommunicator::split(int color, int key, std::string_view name) {
  shardproof_group* part = nullptr;
  link_->check(link_->harness().split(group_, color, key, std::string(name).c_str(), &part));
  return part == nullptr ? nullptr : std::make_unique<EngineSideCommunicator>(device_, part, true);
}

}  // namespace shardproof::subject::abi

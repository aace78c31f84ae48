#include "harness/device/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "harness/device/cuda/cuda_kernels.hpp"
#include "harness/device/cuda/gate.hpp"
#include "harness/device/cuda/kernels/table.hpp"
#include "harness/device/cuda/piece_times.hpp"
#include "harness/device/device_storage.hpp"
#include "harness/device/facts.hpp"
#include "harness/device/imagined_communicator.hpp"

namespace shardproof::device::cuda {

namespace {

constexpr int poison = 0xFF;
constexpr Nanoseconds longest_spin = 10'000'000'000;
// How long the GPU spins, so that the host can queue a few operations before the GPU reaches them.
constexpr Nanoseconds lead = 100'000;

/// Whether NCCL launches anything for this call.
bool moves_anything(std::span<const Collective> collectives) {
  return std::ranges::any_of(
      collectives, [](const Collective& each) { return each.kind == CollectiveKind::barrier || each.in.numel() > 0; });
}

// A GPU as a device. It lives as long as any storage that it gave out, because storage reports its release here.
class CudaDevice final : public Device, public std::enable_shared_from_this<CudaDevice> {
 public:
  CudaDevice(Gpu& gpu, CostModel costs, DeviceOptions options);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  using Device::wait;

  Stream create_stream(StreamRole role, std::string_view name) override;
  void submit(Stream stream, Work work) override;
  Event record(Stream stream) override;
  void wait(Stream stream, Event event) override;
  void synchronize(Stream stream) override;
  void synchronize(Event event) override;
  void synchronize() override;
  std::shared_ptr<Storage> allocate(Stream stream, std::size_t bytes, MemoryClass memory,
                                    std::string_view label) override;
  void release(Stream stream, const std::shared_ptr<Storage>& storage) override;
  void release_to_cache(Stream, const std::shared_ptr<Storage>&) override {
    throw std::invalid_argument("release_to_cache: a GPU adopts no memory: call release instead");
  }
  std::shared_ptr<Storage> adopt(Stream stream, std::byte* data, std::size_t bytes, MemoryClass memory,
                                 std::string_view label) override;
  void describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label) override;
  void host_access(std::string_view label, const std::vector<Tensor>& reads,
                   const std::vector<Tensor>& writes) override;
  Tensor to_host(const Tensor& tensor) override;
  void mark(std::string_view text) override { note(fact::Mark{std::string(text), 0}); }

  Recording take_recording();
  std::size_t live_bytes() const { return live_bytes_; }
  void quiesce() noexcept;
  std::optional<IssuedCall> first_open_call();

  class Memory;
  class Channel;
  class CudaStreamGate;
  // The resources of a group on this device.
  struct Resources {
    std::uint64_t first = 0;  // the number that the group gave its first collective here
    /// The end event of each resource's last collective; nullptr before the first.
    std::array<EventHandle, static_cast<std::size_t>(CollectiveKind::coalesced) + 1> last{};

    EventHandle& last_of(const DeviceOptions& options, CollectiveKind kind) {
      return last[options.separate_resources ? static_cast<std::size_t>(kind) : 0];
    }
  };

 private:
  struct Lane {
    StreamHandle handle = nullptr;
    std::string name;
  };
  template <class F>
  void note(F fact) {
    trace_.facts.emplace_back(std::move(fact));
  }
  // The stream whose order applies. In a serial world this is the compute stream for every handle.
  std::uint32_t timeline(Stream stream, std::string_view operation) const;
  StreamHandle handle(std::uint32_t timeline) const { return lanes_[timeline].handle; }
  EventHandle handle(Event event, std::string_view operation) const;
  EventHandle record_into(std::vector<EventHandle>& events, std::uint32_t timeline);
  EventHandle timestamp(std::uint32_t timeline);
  void spin(std::uint32_t timeline, Nanoseconds cost, std::string_view what);
  void compute(std::uint32_t timeline, const Work& work) const;
  void issue(const std::string& where, std::uint32_t on, std::span<const Collective> collectives, Descriptor asked,
             const std::shared_ptr<NcclGroup>& group, Resources& resources,
             const std::function<std::uint64_t()>& launch);
  /// Collectives that share a resource run one after the other: waits for the last one, if any.
  void wait_in_turn(std::uint32_t timeline, EventHandle last);
  Memory& own(const std::shared_ptr<Storage>& storage, std::string_view operation) const;
  void give_back(std::uint32_t timeline, Memory& memory);
  void bury(Memory& memory);
  ClockSign put_clock_sign();
  std::uint64_t next_piece() const { return gpu_.activity() == nullptr ? 0 : gpu_.activity()->next_piece(); }
  std::uint64_t launches() const { return launches_ + gpu_.kernels().launches(); }

  Gpu& gpu_;
  CostModel costs_;
  DeviceOptions options_;
  Trace trace_;
  std::vector<Lane> lanes_;
  std::vector<EventHandle> events_;  // element i is event i + 1
  std::vector<EventHandle> timestamps_;
  std::vector<TimedPiece> timed_;
  EventHandle origin_ = nullptr;  // of all times
  std::uint64_t launches_ = 0;  // without those of kernels()
  std::optional<ActivityLog::Scope> no_piece_;  // for launches of its thread that belong to no piece
  bool has_taken_records_ = false;
  std::uint64_t buffers_made_ = 0;
  std::size_t live_bytes_ = 0;
  struct OpenCall {
    EventHandle end;
    IssuedCall call;
  };
  std::deque<OpenCall> open_calls_;  // calls that are not known to be over
  std::vector<void*> buried_;  // memory to free when no work is in flight any more
  std::map<const NcclGroup*, std::weak_ptr<Resources>> resources_;
  Resources imagined_;  // for collectives that work replaces
};

class CudaDevice::Memory final : public DeviceStorage {
 public:
  Memory(std::shared_ptr<CudaDevice> device, std::uint32_t stream, std::byte* data, std::size_t size, std::uint64_t id,
         std::string label)
      : DeviceStorage(device.get(), stream, data, size, id, std::move(label), device->trace_.facts.size(),
                      MemorySpace::device),
        device_(std::move(device)) {}
  ~Memory() override {
    if (is_released()) return;
    try {
      // A caller that unwinds from an exception has not ordered the release: work may still use the memory.
      if (std::uncaught_exceptions() > 0) {
        device_->bury(*this);
      } else {
        device_->give_back(stream(), *this);
      }
    } catch (const std::exception& error) {
      device_->gpu_.complain(error);
    }
  }
  void retire() { set_released(); }

 private:
  std::shared_ptr<CudaDevice> device_;
};

class CudaDevice::Channel final : public Communicator {
 public:
  Channel(std::shared_ptr<CudaDevice> device, std::shared_ptr<NcclGroup> group)
      : device_(std::move(device)), group_(std::move(group)) {
    std::weak_ptr<Resources>& known = device_->resources_[group_.get()];
    resources_ = known.lock();
    if (!resources_) known = resources_ = std::make_shared<Resources>(Resources{.first = group_->issued()});
  }

  int rank() const override { return group_->hosts().rank(); }
  std::span<const int> members() const override { return group_->hosts().members(); }
  const FabricCapabilities& capabilities() const override { return NcclGroup::capabilities(); }
  void run(Stream stream, const Collective& collective) override {
    const std::string where =
        text_of_call(to_string(collective.kind), collective.tag, group_->hosts(), device_->trace_.rank);
    const std::uint32_t on = device_->timeline(stream, where);
    shardproof::check(collective, rank(), size(), where);
    device_->issue(where, on, {&collective, 1}, as_call(collective).descriptor, group_, *resources_,
                   [&] { return group_->run(device_->handle(on), collective); });
  }
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override {
    const std::string where = text_of_call("coalesced call", collectives.empty() ? "" : collectives.front().tag,
                                           group_->hosts(), device_->trace_.rank);
    const std::uint32_t on = device_->timeline(stream, where);
    check_coalesced(collectives, rank(), size(), where);
    device_->issue(where, on, collectives, coalesced_descriptor(collectives), group_, *resources_,
                   [&] { return group_->run_coalesced(device_->handle(on), collectives); });
  }
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override {
    std::shared_ptr<NcclGroup> part = group_->split(color, key, name);
    return part ? std::make_unique<Channel>(device_, std::move(part)) : nullptr;
  }

 private:
  std::shared_ptr<CudaDevice> device_;
  std::shared_ptr<NcclGroup> group_;
  std::shared_ptr<Resources> resources_;
};

class CudaDevice::CudaStreamGate final : public StreamGate {
 public:
  explicit CudaStreamGate(std::shared_ptr<CudaDevice> device) : device_(std::move(device)), gate_(device_->gpu_) {}
  void hold(Stream stream) override { gate_.hold(device_->handle(device_->timeline(stream, "hold"))); }
  void open() override { gate_.open(); }
  bool holds() const override { return gate_.holds(); }

 private:
  std::shared_ptr<CudaDevice> device_;
  Gate gate_;
};

CudaDevice::CudaDevice(Gpu& gpu, CostModel costs, DeviceOptions options)
    : gpu_(gpu), costs_(std::move(costs)), options_(options) {
  trace_.rank = gpu.rank();
  lanes_.push_back({gpu.create_stream("compute"), "compute"});
  try {
    no_piece_.emplace(gpu.activity(), no_piece);
    origin_ = gpu.record(lanes_[0].handle);
    gpu.set_first_open_call([this] { return first_open_call(); });
  } catch (...) {
    gpu.destroy_stream(lanes_[0].handle);
    throw;
  }
}

CudaDevice::~CudaDevice() {
  if (gpu_.is_lost()) return;
  for (void* memory : buried_) gpu_.cuda().free_async(memory, lanes_[0].handle);
  gpu_.give_back(origin_);
  for (EventHandle event : events_) gpu_.give_back(event);
  for (EventHandle event : timestamps_) gpu_.give_back(event);
  for (const Lane& lane : lanes_) gpu_.destroy_stream(lane.handle);
}

void CudaDevice::wait_in_turn(std::uint32_t timeline, EventHandle last) {
  if (last != nullptr)
    gpu_.check(gpu_.cuda().stream_wait_event(handle(timeline), last), "cudaStreamWaitEvent", handle(timeline));
}

std::uint32_t CudaDevice::timeline(Stream stream, std::string_view operation) const {
  if (stream.id >= lanes_.size()) {
    throw std::invalid_argument(fmt::format("{} on rank {}: there is no stream {}; this device has made {}", operation,
                                            trace_.rank, stream.id, lanes_.size()));
  }
  return options_.single_stream ? Device::compute.id : stream.id;
}

EventHandle CudaDevice::handle(Event event, std::string_view operation) const {
  if (event.id == 0 || event.id > events_.size()) {
    throw std::invalid_argument(
        fmt::format("{} on rank {}: event {} was never recorded on this device", operation, trace_.rank, event.id));
  }
  return events_[event.id - 1];
}

Stream CudaDevice::create_stream(StreamRole role, std::string_view name) {
  const auto id = static_cast<std::uint32_t>(lanes_.size());
  lanes_.push_back({gpu_.create_stream(std::string(name)), std::string(name)});
  // In a serial world nothing runs on the new stream.
  if (!options_.single_stream) note(fact::StreamCreated{id, role, std::string(name)});
  return {id, role};
}

EventHandle CudaDevice::record_into(std::vector<EventHandle>& events, std::uint32_t timeline) {
  // Make room first: an event that is not stored would be lost.
  if (events.size() == events.capacity()) events.reserve(2 * events.size() + 16);
  events.push_back(gpu_.record(handle(timeline)));
  return events.back();
}

EventHandle CudaDevice::timestamp(std::uint32_t timeline) { return record_into(timestamps_, timeline); }

void CudaDevice::spin(std::uint32_t timeline, Nanoseconds cost, std::string_view what) {
  if (cost < 0 || cost > longest_spin) {
    throw std::invalid_argument(fmt::format("{} on rank {} would take {} ns; {} spins for {} ns at most", what,
                                            trace_.rank, cost, gpu_.name(), longest_spin));
  }
  if (cost == 0) return;
  const StreamHandle stream = handle(timeline);
  gpu_.check(gpu_.vendor().kernels->spin(cost, longest_spin, gpu_.abort_flag(), stream), "spin", stream);
  ++launches_;
}

void CudaDevice::compute(std::uint32_t timeline, const Work& work) const {
  try {
    work.run(gpu_.kernels(), handle(timeline));
  } catch (const std::invalid_argument& error) {
    // A kernel that rejects shapes does not know which work they belong to.
    throw std::invalid_argument(fmt::format("{} \"{}\": {}", to_string(work.kind), work.label, error.what()));
  }
}

// Work spins before it computes. So a reader that comes too early finds the old values. A writer that comes too early
// changes what this work reads.
void CudaDevice::submit(Stream stream, Work work) {
  const std::uint32_t on = timeline(stream, "submit");
  const Nanoseconds cost = cost_of(costs_, work);
  const std::uint64_t piece = next_piece(), launched_before = launches();
  EventHandle* const last =
      work.imagined_call ? &imagined_.last_of(options_, work.imagined_call->collectives.front().kind) : nullptr;
  if (last != nullptr) wait_in_turn(on, *last);
  const EventHandle start = timestamp(on);
  {
    const ActivityLog::Scope scope(gpu_.activity(), piece);
    spin(on, cost, fmt::format("{} \"{}\"", to_string(work.kind), work.label));
    if (work.run) compute(on, work);
  }
  const EventHandle end = timestamp(on);
  if (last != nullptr) *last = end;
  timed_.push_back({.fact = trace_.facts.size(),
                    .facts = work.imagined_call ? work.imagined_call->collectives.size() : 1,
                    .start = start,
                    .end = end,
                    .cost = cost,
                    .group = nullptr,
                    .piece = piece,
                    .launches = launches() - launched_before});
  device::note(trace_, work, on, 0, 0);
}

Event CudaDevice::record(Stream stream) {
  const std::uint32_t on = timeline(stream, "record");
  record_into(events_, on);
  const Event event{events_.size()};
  note(fact::EventRecorded{on, event.id});
  return event;
}

void CudaDevice::wait(Stream stream, Event event) {
  const std::uint32_t on = timeline(stream, "wait");
  gpu_.check(gpu_.cuda().stream_wait_event(handle(on), handle(event, "wait")), "cudaStreamWaitEvent", handle(on));
  note(fact::EventWaited{on, event.id});
}

void CudaDevice::synchronize(Stream stream) {
  const std::uint32_t on = timeline(stream, "synchronize");
  gpu_.await(timestamp(on),
             [&] { return fmt::format("work on stream {} of rank {} has not ended", lanes_[on].name, trace_.rank); });
  note(fact::StreamSynchronized{on});
}

void CudaDevice::synchronize(Event event) {
  gpu_.await(handle(event, "synchronize"),
             [&] { return fmt::format("event {} of rank {} has not happened", event.id, trace_.rank); });
  note(fact::EventSynchronized{event.id});
}

void CudaDevice::synchronize() {
  synchronize(Device::compute);
  if (options_.single_stream) return;  // every handle is the compute stream
  for (std::uint32_t id = Device::compute.id + 1; id < lanes_.size(); ++id) synchronize(Stream{id});
}

std::shared_ptr<Storage> CudaDevice::allocate(Stream stream, std::size_t bytes, MemoryClass memory,
                                              std::string_view label) {
  const std::uint32_t on = timeline(stream, "allocate");
  void* data = nullptr;
  if (bytes > 0) gpu_.check(gpu_.cuda().malloc_async(&data, bytes, handle(on)), "cudaMallocAsync", handle(on));
  const std::uint64_t id = ++buffers_made_;
  auto storage =
      std::make_shared<Memory>(shared_from_this(), on, static_cast<std::byte*>(data), bytes, id, std::string(label));
  live_bytes_ += bytes;
  note(fact::Allocated{on, id, bytes, memory, std::string(label)});
  if (bytes > 0) gpu_.check(gpu_.cuda().memset_async(data, poison, bytes, handle(on)), "cudaMemsetAsync", handle(on));
  return storage;
}

CudaDevice::Memory& CudaDevice::own(const std::shared_ptr<Storage>& storage, std::string_view operation) const {
  return static_cast<Memory&>(live_storage(storage, this, operation, trace_.rank));
}

void CudaDevice::release(Stream stream, const std::shared_ptr<Storage>& storage) {
  const std::uint32_t on = timeline(stream, "release");
  give_back(on, own(storage, "release"));
}

void CudaDevice::describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label) {
  own(storage, "describe").describe(trace_, memory, label);
}

void CudaDevice::give_back(std::uint32_t timeline, Memory& memory) {
  memory.retire();
  live_bytes_ -= memory.bytes();
  note(fact::Released{timeline, memory.buffer()});
  if (memory.data() != nullptr)
    gpu_.check(gpu_.cuda().free_async(memory.data(), handle(timeline)), "cudaFreeAsync", handle(timeline));
}

void CudaDevice::bury(Memory& memory) {
  if (memory.data() != nullptr) buried_.push_back(memory.data());
  memory.retire();
  live_bytes_ -= memory.bytes();
}

void CudaDevice::host_access(std::string_view label, const std::vector<Tensor>& reads,
                             const std::vector<Tensor>& writes) {
  note(fact::HostAccess{std::string(label), ranges(reads), ranges(writes)});
}

Tensor CudaDevice::to_host(const Tensor& tensor) {
  if (!tensor.defined() || tensor.storage()->space() == MemorySpace::host) return tensor.clone();
  const Tensor copy = Tensor::host(tensor.dtype(), tensor.shape());
  if (copy.bytes() == 0) return copy;
  // The caller has waited for the copied data. But other work may be in flight on the stream, and the copy would wait
  // for it without bounds.
  gpu_.await(timestamp(Device::compute.id),
             [&] { return fmt::format("work on stream compute of rank {} has not ended", trace_.rank); });
  const StreamHandle stream = handle(Device::compute.id);
  gpu_.check(gpu_.cuda().memcpy_async(copy.data(), tensor.data(), copy.bytes(), CopyKind::device_to_host, stream),
             "cudaMemcpyAsync", stream);
  return copy;
}

// NCCL runs the calls of a communicator one at a time. The GPU spins for their costs in the same order, before the
// bytes move. `launch` returns the call's number in the group.
void CudaDevice::issue(const std::string& where, std::uint32_t on, std::span<const Collective> collectives,
                       Descriptor asked, const std::shared_ptr<NcclGroup>& group, Resources& resources,
                       const std::function<std::uint64_t()>& launch) {
  EventHandle& last = resources.last_of(options_, collectives.front().kind);
  wait_in_turn(on, last);
  const std::uint64_t piece = next_piece(), launched_before = launches();
  // NCCL launches from its own thread, which has pushed no ids.
  if (piece != 0) gpu_.emit_marker(handle(on), place_before(piece));
  const EventHandle start = timestamp(on);
  const Nanoseconds cost = cost_of(costs_, collectives);
  {
    const ActivityLog::Scope scope(gpu_.activity(), piece);
    spin(on, cost, where);
    asked.sequence = launch();
  }
  last = timestamp(on);
  launches_ += moves_anything(collectives) ? 1 : 0;
  const IssuedCall issued{.group = group->joined(), .call = asked};
  gpu_.issued(issued);
  open_calls_.push_back({last, issued});
  timed_.push_back({.fact = trace_.facts.size(),
                    .facts = collectives.size(),
                    .start = start,
                    .end = last,
                    .cost = cost,
                    .group = group,
                    .piece = piece,
                    .launches = launches() - launched_before});
  for (const Collective& collective : collectives)
    note(fact_of(collective, on, group->hosts().members(), asked.sequence - resources.first, 0, 0));
}

// The GPU spins while the host queues the rest. So the GPU goes from one operation to the next without waiting for the
// host.
ClockSign CudaDevice::put_clock_sign() {
  ClockSign sign{.before = nullptr, .after = nullptr, .piece = next_piece()};
  spin(Device::compute.id, lead, "the spin before the comparison of clocks");
  sign.before = timestamp(Device::compute.id);
  gpu_.emit_marker(handle(Device::compute.id), sign.piece);
  sign.after = timestamp(Device::compute.id);
  gpu_.await(sign.after, [&] { return fmt::format("the comparison of clocks on rank {} has not ended", trace_.rank); });
  return sign;
}

Recording CudaDevice::take_recording() {
  // the last chance to report ranks that disagree or are gone
  gpu_.await([] { return true; }, [] { return std::string(); });
  Recording recording{
      .trace = at_virtual_times(trace_, timed_, options_), .measured = std::nullopt, .records = std::nullopt};
  const PieceTimes times(gpu_, origin_, timed_, events_);
  if (gpu_.activity() == nullptr) {
    recording.measured = times.by_events(trace_);
  } else {
    const ClockSign sign = put_clock_sign();
    has_taken_records_ = true;
    recording.measured = times.by_records(trace_, sign, recording.records.emplace());
  }
  timed_.clear();
  trace_.facts.clear();
  return recording;
}

// Does not check work that has ended: a peer may have left its communicators by now, and the next device has new ones.
// A caller that unwinds from an exception does not wait for long: it abandons work that is not over by then.
void CudaDevice::quiesce() noexcept {
  no_piece_.reset();
  try {
    for (const Lane& lane : lanes_) {
      if (gpu_.is_lost()) return;
      const EventHandle event = gpu_.record(lane.handle);
      const auto has_ended = [&] { return gpu_.cuda().event_query(event) == 0; };
      if (std::uncaught_exceptions() > 0 ? !gpu_.ends_soon(has_ended) : !has_ended()) {
        if (std::uncaught_exceptions() > 0) gpu_.abandon();
        gpu_.await(event,
                   [&] { return fmt::format("work on stream {} of rank {} has not ended", lane.name, trace_.rank); });
      }
      gpu_.give_back(event);
    }
  } catch (const std::exception& error) {
    gpu_.complain(error);
    gpu_.abandon();
  }
  gpu_.set_first_open_call(nullptr);
  gpu_.destroy_retired();
  // no caller has taken the trace
  if (gpu_.activity() != nullptr && !has_taken_records_ && !gpu_.is_lost()) gpu_.activity()->forget();
}

std::optional<IssuedCall> CudaDevice::first_open_call() {
  while (!open_calls_.empty() && gpu_.cuda().event_query(open_calls_.front().end) == 0) open_calls_.pop_front();
  if (open_calls_.empty()) return std::nullopt;
  return open_calls_.front().call;
}

std::shared_ptr<Storage> CudaDevice::adopt(Stream, std::byte*, std::size_t bytes, MemoryClass, std::string_view label) {
  throw std::logic_error(fmt::format(
      "adopt: {} bytes \"{}\" cannot become a buffer of a GPU: allocate a buffer and compute in it", bytes, label));
}

class CudaPlatform final : public Platform {
 public:
  CudaPlatform(Gpu& gpu, const CostModel& costs, const DeviceOptions& options, const std::shared_ptr<NcclGroup>& group)
      : device_(std::make_shared<CudaDevice>(gpu, costs, options)) {
    world_ =
        communicator_of_world(*device_, options, [&] { return std::make_unique<CudaDevice::Channel>(device_, group); });
  }
  ~CudaPlatform() override {
    world_.reset();
    device_->quiesce();
  }
  CudaPlatform(const CudaPlatform&) = delete;
  CudaPlatform& operator=(const CudaPlatform&) = delete;

  Device& device() override { return *device_; }
  Communicator& world() override { return *world_; }
  std::unique_ptr<StreamGate> gate() override { return std::make_unique<CudaDevice::CudaStreamGate>(device_); }
  Recording take_recording() override { return device_->take_recording(); }
  std::size_t live_bytes() const override { return device_->live_bytes(); }

 private:
  std::shared_ptr<CudaDevice> device_;
  std::unique_ptr<Communicator> world_;
};

}  // namespace

std::unique_ptr<Platform> make_platform(Gpu& gpu, const CostModel& costs, const DeviceOptions& options,
                                        const std::shared_ptr<NcclGroup>& group) {
  return std::make_unique<CudaPlatform>(gpu, costs, options, group);
}

std::string objection(const CostModel& costs, const DeviceOptions& options, const VendorTables& vendor) {
  if (costs.host_call != 0) return fmt::format("{} cannot make the host slower (costs.host_call)", vendor.name);
  if (options.hide_undeclared_memory)
    return fmt::format("{} cannot hide memory from work (costs.hide_undeclared_memory)", vendor.name);
  return {};
}

}  // namespace shardproof::device::cuda

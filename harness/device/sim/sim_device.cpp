#include "harness/device/sim/sim_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/device/device_storage.hpp"
#include "harness/device/facts.hpp"
#include "harness/trace/virtual_clock.hpp"

namespace shardproof {

namespace {

constexpr std::align_val_t alignment{64};
constexpr std::size_t largest_element = 8;

// The times when this rank's resources for a group's collectives become free.
struct Resources {
  std::array<Nanoseconds, static_cast<std::size_t>(CollectiveKind::coalesced) + 1> free{};

  Nanoseconds& free_of(const DeviceOptions& options, CollectiveKind kind) {
    return free[options.separate_resources ? static_cast<std::size_t>(kind) : 0];
  }
};

}  // namespace

// The state of the device. It lives as long as any storage that the device gave out, because storage reports its
// release here.
class SimDevice::State : public std::enable_shared_from_this<State> {
 public:
  State(CostModel costs, DeviceOptions options, int rank) : costs_(std::move(costs)), options_(options) {
    trace_.rank = rank;
  }

  Stream create_stream(StreamRole role, std::string_view name);
  void submit(Stream stream, const Work& work);
  Event record(Stream stream);
  void wait(Stream stream, Event event);
  void synchronize(Stream stream);
  void synchronize(Event event);
  void synchronize();
  std::shared_ptr<Storage> allocate(Stream stream, std::size_t bytes, MemoryClass memory, std::string_view label);
  void release(Stream stream, const std::shared_ptr<Storage>& storage);
  void release_to_cache(Stream stream, const std::shared_ptr<Storage>& storage);
  std::shared_ptr<Storage> adopt(Stream stream, std::byte* data, std::size_t bytes, MemoryClass memory,
                                 std::string_view label);
  void describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label);
  void host_access(std::string_view label, const std::vector<Tensor>& reads, const std::vector<Tensor>& writes);
  void mark(std::string_view text) { note(fact::Mark{std::string(text), clock_.end_of(Device::compute.id)}); }
  void run(Stream stream, const Collective& collective, Group& group, Resources& resources);
  void run_coalesced(Stream stream, std::span<const Collective> collectives, Group& group, Resources& resources);
  std::shared_ptr<Resources> resources(const Group& group);

  const Trace& trace() const { return trace_; }
  Trace take_trace() { return std::exchange(trace_, Trace{.rank = trace_.rank, .facts = {}}); }
  Nanoseconds host_clock() const { return clock_.host(); }
  std::size_t live_bytes() const { return live_bytes_; }

  class Memory;
  class Channel;

 private:
  template <class F>
  void note(F fact) {
    trace_.facts.emplace_back(std::move(fact));
  }
  // The stream whose order and clock apply. In a serial world this is the compute stream for every handle.
  std::uint32_t timeline(Stream stream, std::string_view operation) const;
  std::size_t number(Event event, std::string_view operation) const;
  Memory& own(const std::shared_ptr<Storage>& storage, std::string_view operation) const;
  std::shared_ptr<Storage> enter(std::shared_ptr<Memory> made, std::uint32_t timeline, MemoryClass memory);
  void give_back(std::uint32_t timeline, Memory& memory, bool to_cache);
  std::string place(std::string_view kind, std::string_view tag, const Group& group) const;
  static void require_peers(const Group& group, const std::string& where);
  void issue(const std::string& where, std::uint32_t on, std::span<const Collective> collectives, const Group& group,
             Resources& resources, const std::function<Receipt(std::span<const Call>)>& exchange);
  void compute(const Work& work) const;
  void run_alone(const Work& work) const;

  CostModel costs_;
  DeviceOptions options_;
  Trace trace_;
  trace::VirtualClock clock_;
  std::uint64_t buffers_made_ = 0;
  std::size_t live_bytes_ = 0;
  std::map<const Group*, std::weak_ptr<Resources>> resources_;
  Resources imagined_;  // for collectives that work replaces
  std::map<std::uint64_t, Memory*> alive_;  // by buffer
};

class SimDevice::State::Memory final : public DeviceStorage {
 public:
  enum class Origin : std::uint8_t { allocated, adopted };

  Memory(std::shared_ptr<State> state, std::uint32_t stream, std::byte* data, std::size_t size, std::uint64_t id,
         std::string label, Origin origin)
      : DeviceStorage(state.get(), stream, data, size, id, std::move(label), state->trace_.facts.size(),
                      MemorySpace::host),
        state_(std::move(state)),
        origin_(origin) {
    if (origin_ == Origin::allocated) fill();
  }
  ~Memory() override {
    if (!is_released()) state_->give_back(stream(), *this, false);
    if (origin_ == Origin::allocated) ::operator delete(data(), alignment);
  }

  bool is_adopted() const { return origin_ == Origin::adopted; }
  // Tensors of this memory may still exist, but no code may read them. Poison shows such a read of allocated memory.
  void retire() {
    set_released();
    if (origin_ == Origin::allocated) fill();
  }
  void fill() { std::memset(data(), std::to_integer<int>(poison), bytes()); }

 private:
  std::shared_ptr<State> state_;
  Origin origin_;
};

class SimDevice::State::Channel final : public Communicator {
 public:
  Channel(std::shared_ptr<State> state, std::shared_ptr<Group> group)
      : state_(std::move(state)), group_(std::move(group)), resources_(state_->resources(*group_)) {}

  int rank() const override { return group_->rank(); }
  std::span<const int> members() const override { return group_->members(); }
  const FabricCapabilities& capabilities() const override { return group_->capabilities(); }
  void run(Stream stream, const Collective& collective) override {
    state_->run(stream, collective, *group_, *resources_);
  }
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override {
    state_->run_coalesced(stream, collectives, *group_, *resources_);
  }
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override {
    std::shared_ptr<Group> part = group_->split(color, key, name);
    return part ? std::make_unique<Channel>(state_, std::move(part)) : nullptr;
  }

 private:
  std::shared_ptr<State> state_;
  std::shared_ptr<Group> group_;
  std::shared_ptr<Resources> resources_;
};

std::uint32_t SimDevice::State::timeline(Stream stream, std::string_view operation) const {
  if (stream.id >= clock_.streams()) {
    throw std::invalid_argument(fmt::format("{} on rank {}: there is no stream {}; this device has made {}", operation,
                                            trace_.rank, stream.id, clock_.streams()));
  }
  return options_.single_stream ? Device::compute.id : stream.id;
}

// The clock's number of an event, from 0; the device counts its events from 1.
std::size_t SimDevice::State::number(Event event, std::string_view operation) const {
  if (event.id == 0 || event.id > clock_.events()) {
    throw std::invalid_argument(
        fmt::format("{} on rank {}: event {} was never recorded on this device", operation, trace_.rank, event.id));
  }
  return event.id - 1;
}

Stream SimDevice::State::create_stream(StreamRole role, std::string_view name) {
  const std::uint32_t id = clock_.create_stream();
  // In a serial world nothing runs on the new stream.
  if (!options_.single_stream) note(fact::StreamCreated{id, role, std::string(name)});
  return {id, role};
}

void SimDevice::State::compute(const Work& work) const {
  try {
    if (options_.hide_undeclared_memory) return run_alone(work);
    work.run(cpu_kernels(), nullptr);
  } catch (const std::invalid_argument& error) {
    // A kernel that rejects shapes does not know which work they belong to.
    throw std::invalid_argument(fmt::format("{} \"{}\": {}", to_string(work.kind), work.label, error.what()));
  }
}

void SimDevice::State::submit(Stream stream, const Work& work) {
  const std::uint32_t on = timeline(stream, "submit");
  const Nanoseconds cost = cost_of(costs_, work);
  if (cost < 0) {
    throw std::invalid_argument(fmt::format("submit on rank {}: {} \"{}\" would take {} ns", trace_.rank,
                                            to_string(work.kind), work.label, cost));
  }
  if (work.run) compute(work);
  clock_.advance_host(costs_.host_call);
  if (!work.stands_for) {
    const auto [start, end] = clock_.work(on, cost);
    shardproof::note(trace_, work, on, start, end);
    return;
  }
  Nanoseconds& resource_free = imagined_.free_of(options_, work.stands_for->collectives.front().kind);
  const auto [start, end] = clock_.collective(on, clock_.ready(on, resource_free), cost);
  resource_free = end;
  shardproof::note(trace_, work, on, start, end);
}

Event SimDevice::State::record(Stream stream) {
  const std::uint32_t on = timeline(stream, "record");
  const Event event{clock_.record(on) + 1};
  note(fact::EventRecorded{on, event.id});
  return event;
}

void SimDevice::State::wait(Stream stream, Event event) {
  const std::uint32_t on = timeline(stream, "wait");
  clock_.wait(on, number(event, "wait"));
  note(fact::EventWaited{on, event.id});
}

void SimDevice::State::synchronize(Stream stream) {
  const std::uint32_t on = timeline(stream, "synchronize");
  clock_.synchronize_stream(on);
  note(fact::StreamSynchronized{on});
}

void SimDevice::State::synchronize(Event event) {
  clock_.synchronize_event(number(event, "synchronize"));
  note(fact::EventSynchronized{event.id});
}

void SimDevice::State::synchronize() {
  synchronize(Device::compute);
  if (options_.single_stream) return;  // every handle is the compute stream
  for (std::uint32_t id = Device::compute.id + 1; id < clock_.streams(); ++id) synchronize(Stream{id});
}

std::shared_ptr<Storage> SimDevice::State::allocate(Stream stream, std::size_t bytes, MemoryClass memory,
                                                    std::string_view label) {
  const std::uint32_t on = timeline(stream, "allocate");
  struct Delete {
    void operator()(std::byte* data) const { ::operator delete(data, alignment); }
  };
  const auto refuse = [&] {
    throw std::invalid_argument(
        fmt::format("allocate on rank {}: there are no {} bytes for \"{}\"", trace_.rank, bytes, label));
  };
  // A larger size would wrap around when it is rounded up.
  if (bytes > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max())) refuse();
  std::unique_ptr<std::byte, Delete> data(static_cast<std::byte*>(::operator new(bytes, alignment, std::nothrow)));
  if (!data) refuse();
  auto made = std::make_shared<Memory>(shared_from_this(), on, data.get(), bytes, buffers_made_ + 1, std::string(label),
                                       Memory::Origin::allocated);
  static_cast<void>(data.release());  // the storage owns it from here on
  return enter(std::move(made), on, memory);
}

std::shared_ptr<Storage> SimDevice::State::adopt(Stream stream, std::byte* data, std::size_t bytes, MemoryClass memory,
                                                 std::string_view label) {
  const std::uint32_t on = timeline(stream, "adopt");
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("adopt on rank {}: {} bytes \"{}\" {}", trace_.rank, bytes, label, why));
  };
  if (data == nullptr && bytes > 0) refuse("without an address");
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  if (bytes > 0 && begin % largest_element != 0)
    refuse(fmt::format("begin at {}, which is no multiple of {}", static_cast<void*>(data), largest_element));
  if (std::uintptr_t end = 0; __builtin_add_overflow(begin, bytes, &end)) refuse("end behind the last address");
  // Buffers may not overlap: the race search treats two buffers as separate memory.
  const std::less<> before;
  for (const auto& [buffer, other] : alive_) {
    if (bytes > 0 && before(data, other->data() + other->bytes()) && before(other->data(), data + bytes))
      refuse(fmt::format("are in part those of buffer {} \"{}\", which has not been released", buffer, other->label()));
  }
  return enter(std::make_shared<Memory>(shared_from_this(), on, data, bytes, buffers_made_ + 1, std::string(label),
                                        Memory::Origin::adopted),
               on, memory);
}

std::shared_ptr<Storage> SimDevice::State::enter(std::shared_ptr<Memory> made, std::uint32_t timeline,
                                                 MemoryClass memory) {
  alive_[made->buffer()] = made.get();
  buffers_made_ = made->buffer();
  live_bytes_ += made->bytes();
  note(fact::Allocated{timeline, made->buffer(), made->bytes(), memory, made->label(), made->is_adopted()});
  return made;
}

SimDevice::State::Memory& SimDevice::State::own(const std::shared_ptr<Storage>& storage,
                                                std::string_view operation) const {
  return static_cast<Memory&>(live_storage(storage, this, operation, trace_.rank));
}

void SimDevice::State::release(Stream stream, const std::shared_ptr<Storage>& storage) {
  const std::uint32_t on = timeline(stream, "release");
  Memory& memory = own(storage, "release");
  give_back(on, memory, false);
  memory.retire();
}

void SimDevice::State::release_to_cache(Stream stream, const std::shared_ptr<Storage>& storage) {
  const std::uint32_t on = timeline(stream, "release_to_cache");
  Memory& memory = own(storage, "release_to_cache");
  if (!memory.is_adopted()) {
    throw std::invalid_argument(
        fmt::format("release_to_cache on rank {}: buffer {} \"{}\" was allocated here, not adopted: release it",
                    trace_.rank, memory.buffer(), memory.label()));
  }
  give_back(on, memory, true);
  memory.retire();
}

void SimDevice::State::describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label) {
  own(storage, "describe").describe(trace_, memory, label);
}

// Runs the work while all memory that it does not declare is hidden.
void SimDevice::State::run_alone(const Work& work) const {
  const auto is_declared = [&work](std::uint64_t buffer) {
    const auto names = [buffer](const Tensor& tensor) { return tensor.range().buffer == buffer; };
    return std::ranges::any_of(work.reads, names) || std::ranges::any_of(work.writes, names);
  };
  // Restores the memory even if the work throws, because adopted memory is the subject's.
  class Hidden {
   public:
    ~Hidden() {
      for (const auto& [memory, bytes] : memories_) std::ranges::copy(bytes, memory->data());
    }
    void add(Memory* memory) {
      memories_.emplace_back(memory, std::vector<std::byte>(memory->data(), memory->data() + memory->bytes()));
      memory->fill();
    }

   private:
    std::vector<std::pair<Memory*, std::vector<std::byte>>> memories_;
  };
  {
    Hidden hidden;
    for (const auto& [buffer, memory] : alive_) {
      if (!is_declared(buffer)) hidden.add(memory);
    }
    work.run(cpu_kernels(), nullptr);
  }

  for (const Tensor& written : work.writes) {
    if (written.dtype() != DType::f32) continue;
    const auto untouched = [](float value) { return std::bit_cast<std::uint32_t>(value) == 0xFFFFFFFFU; };
    if (std::ranges::none_of(written.values<float>(), untouched)) continue;
    throw std::logic_error(
        fmt::format("{} \"{}\" says that it writes {} of buffer {}, and leaves elements of it as they were allocated: "
                    "it does not write them, "
                    "or copies there from a buffer that it does not declare",
                    to_string(work.kind), work.label, to_string(written.shape()), written.range().buffer));
  }
}

void SimDevice::State::give_back(std::uint32_t timeline, Memory& memory, bool to_cache) {
  alive_.erase(memory.buffer());
  note(fact::Released{timeline, memory.buffer(), to_cache});
  live_bytes_ -= memory.bytes();
}

void SimDevice::State::host_access(std::string_view label, const std::vector<Tensor>& reads,
                                   const std::vector<Tensor>& writes) {
  note(fact::HostAccess{std::string(label), ranges(reads), ranges(writes)});
}

std::shared_ptr<Resources> SimDevice::State::resources(const Group& group) {
  std::weak_ptr<Resources>& known = resources_[&group];
  std::shared_ptr<Resources> shared = known.lock();
  if (!shared) known = shared = std::make_shared<Resources>();
  return shared;
}

std::string SimDevice::State::place(std::string_view kind, std::string_view tag, const Group& group) const {
  return fmt::format("{} \"{}\" of group {} on rank {}", kind, tag, group.name(), trace_.rank);
}

void SimDevice::State::run(Stream stream, const Collective& collective, Group& group, Resources& resources) {
  const std::string where = place(to_string(collective.kind), collective.tag, group);
  const std::uint32_t on = timeline(stream, where);
  require_peers(group, where);
  check(collective, group.rank(), group.size(), where);
  issue(where, on, {&collective, 1}, group, resources,
        [&](std::span<const Call> calls) { return group.run(calls.front()); });
}

void SimDevice::State::run_coalesced(Stream stream, std::span<const Collective> collectives, Group& group,
                                     Resources& resources) {
  const std::string where = place("coalesced call", collectives.empty() ? "" : collectives.front().tag, group);
  const std::uint32_t on = timeline(stream, where);
  require_peers(group, where);
  check_coalesced(collectives, group.rank(), group.size(), where);
  issue(where, on, collectives, group, resources,
        [&](std::span<const Call> calls) { return group.run_coalesced(calls); });
}

void SimDevice::State::require_peers(const Group& group, const std::string& where) {
  if (group.size() == 1)
    throw std::logic_error(where + ": a group of one rank has nobody to talk to and must issue no collective");
}

// Issues the collectives of one call.
void SimDevice::State::issue(const std::string& where, std::uint32_t on, std::span<const Collective> collectives,
                             const Group& group, Resources& resources,
                             const std::function<Receipt(std::span<const Call>)>& exchange) {
  Nanoseconds& resource_free = resources.free_of(options_, collectives.front().kind);
  const Nanoseconds issued = trace::later(clock_.host(), costs_.host_call);
  const Nanoseconds ready = clock_.ready(on, std::max(resource_free, issued));
  std::vector<Call> calls;
  for (const Collective& collective : collectives) calls.emplace_back(as_call(collective)).descriptor.ready_ns = ready;

  const Receipt receipt = exchange(calls);
  if (receipt.latest_ready_ns < ready) {
    throw std::logic_error(
        fmt::format("{}: the fabric says that all were ready at {} ns, but this rank only was at {} ns", where,
                    receipt.latest_ready_ns, ready));
  }
  clock_.advance_host(costs_.host_call);  // the host has now issued the call
  const auto [start, end] = clock_.collective(on, receipt.latest_ready_ns, cost_of(costs_, collectives));
  resource_free = end;
  for (const Collective& collective : collectives)
    note(fact_of(collective, on, group.members(), receipt.sequence, start, end));
}

SimDevice::SimDevice(CostModel costs, int rank, DeviceOptions options)
    : state_(std::make_shared<State>(std::move(costs), options, rank)) {}
SimDevice::~SimDevice() = default;

Stream SimDevice::create_stream(StreamRole role, std::string_view name) { return state_->create_stream(role, name); }
void SimDevice::submit(Stream stream, Work work) { state_->submit(stream, work); }
Event SimDevice::record(Stream stream) { return state_->record(stream); }
void SimDevice::wait(Stream stream, Event event) { state_->wait(stream, event); }
void SimDevice::synchronize(Stream stream) { state_->synchronize(stream); }
void SimDevice::synchronize(Event event) { state_->synchronize(event); }
void SimDevice::synchronize() { state_->synchronize(); }
std::shared_ptr<Storage> SimDevice::allocate(Stream stream, std::size_t bytes, MemoryClass memory,
                                             std::string_view label) {
  return state_->allocate(stream, bytes, memory, label);
}
void SimDevice::release(Stream stream, const std::shared_ptr<Storage>& storage) { state_->release(stream, storage); }
void SimDevice::release_to_cache(Stream stream, const std::shared_ptr<Storage>& storage) {
  state_->release_to_cache(stream, storage);
}
std::shared_ptr<Storage> SimDevice::adopt(Stream stream, std::byte* data, std::size_t bytes, MemoryClass memory,
                                          std::string_view label) {
  return state_->adopt(stream, data, bytes, memory, label);
}
void SimDevice::describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label) {
  state_->describe(storage, memory, label);
}
void SimDevice::host_access(std::string_view label, const std::vector<Tensor>& reads,
                            const std::vector<Tensor>& writes) {
  state_->host_access(label, reads, writes);
}
void SimDevice::mark(std::string_view text) { state_->mark(text); }
std::unique_ptr<Communicator> SimDevice::communicator(Group& group) {
  return std::make_unique<State::Channel>(state_, std::shared_ptr<Group>(std::shared_ptr<void>(), &group));  // borrowed
}
const Trace& SimDevice::trace() const { return state_->trace(); }
Trace SimDevice::take_trace() { return state_->take_trace(); }
Nanoseconds SimDevice::host_clock() const { return state_->host_clock(); }
std::size_t SimDevice::live_bytes() const { return state_->live_bytes(); }

}  // namespace shardproof

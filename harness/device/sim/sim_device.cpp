#include "harness/device/sim/sim_device.hpp"

#include <fmt/format.h>

#include <algorithm>
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

namespace shardproof::device {

namespace {

constexpr std::align_val_t alignment{64};
constexpr std::size_t largest_element = 8;

}  // namespace

// The device's buffers and facts. It lives as long as any storage that the device gave out, because storage reports its
// release here.
struct SimDevice::Ledger {
  void give_back(std::uint32_t timeline, const Memory& memory, bool to_cache);

  Trace trace;
  std::map<std::uint64_t, Memory*> alive;  // by buffer
  std::size_t live_bytes = 0;
};

class SimDevice::Memory final : public DeviceStorage {
 public:
  enum class Origin : std::uint8_t { allocated, adopted };

  Memory(std::shared_ptr<Ledger> ledger, std::uint32_t stream, std::byte* data, std::size_t size, std::uint64_t id,
         std::string label, Origin origin)
      : DeviceStorage(ledger.get(), stream, data, size, id, std::move(label), ledger->trace.facts.size(),
                      MemorySpace::host),
        ledger_(std::move(ledger)),
        origin_(origin) {
    if (origin_ == Origin::allocated) fill();
  }
  ~Memory() override {
    if (!is_released()) ledger_->give_back(stream(), *this, false);
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
  std::shared_ptr<Ledger> ledger_;
  Origin origin_;
};

class SimDevice::Channel final : public Communicator {
 public:
  Channel(SimDevice& device, std::shared_ptr<Group> group) : device_(device), group_(std::move(group)) {
    std::weak_ptr<Resources>& known = device_.resources_[group_.get()];
    resources_ = known.lock();
    if (!resources_) known = resources_ = std::make_shared<Resources>();
  }

  int rank() const override { return group_->rank(); }
  std::span<const int> members() const override { return group_->members(); }
  const FabricCapabilities& capabilities() const override { return group_->capabilities(); }
  void run(Stream stream, const Collective& collective) override {
    const std::string where =
        text_of_call(to_string(collective.kind), collective.tag, *group_, device_.ledger_->trace.rank);
    const std::uint32_t on = device_.timeline(stream, where);
    check(collective, rank(), size(), where);
    device_.issue(where, on, {&collective, 1}, *group_, *resources_,
                  [&](std::span<const Call> calls) { return group_->run(calls.front()); });
  }
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override {
    const std::string where = text_of_call("coalesced call", collectives.empty() ? "" : collectives.front().tag,
                                           *group_, device_.ledger_->trace.rank);
    const std::uint32_t on = device_.timeline(stream, where);
    check_coalesced(collectives, rank(), size(), where);
    device_.issue(where, on, collectives, *group_, *resources_,
                  [&](std::span<const Call> calls) { return group_->run_coalesced(calls); });
  }
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override {
    std::shared_ptr<Group> part = group_->split(color, key, name);
    return part ? std::make_unique<Channel>(device_, std::move(part)) : nullptr;
  }

 private:
  SimDevice& device_;
  std::shared_ptr<Group> group_;
  std::shared_ptr<Resources> resources_;
};

SimDevice::SimDevice(CostModel costs, int rank, DeviceOptions options)
    : costs_(std::move(costs)),
      options_(options),
      ledger_(std::make_shared<Ledger>(Ledger{.trace = {.rank = rank, .facts = {}}, .alive = {}})) {}

SimDevice::~SimDevice() = default;

template <class F> void SimDevice::note(F fact) { ledger_->trace.facts.emplace_back(std::move(fact)); }

std::uint32_t SimDevice::timeline(Stream stream, std::string_view operation) const {
  if (stream.id >= clock_.streams()) {
    throw std::invalid_argument(fmt::format("{} on rank {}: there is no stream {}; this device has made {}", operation,
                                            ledger_->trace.rank, stream.id, clock_.streams()));
  }
  return options_.single_stream ? Device::compute.id : stream.id;
}

// The clock's number of an event, from 0; the device counts its events from 1.
std::size_t SimDevice::number(Event event, std::string_view operation) const {
  if (event.id == 0 || event.id > clock_.events()) {
    throw std::invalid_argument(fmt::format("{} on rank {}: event {} was never recorded on this device", operation,
                                            ledger_->trace.rank, event.id));
  }
  return event.id - 1;
}

Stream SimDevice::create_stream(StreamRole role, std::string_view name) {
  const std::uint32_t id = clock_.create_stream();
  // In a serial world nothing runs on the new stream.
  if (!options_.single_stream) note(fact::StreamCreated{id, role, std::string(name)});
  return {id, role};
}

void SimDevice::compute(const Work& work) const {
  try {
    if (options_.hide_undeclared_memory) return run_alone(work);
    work.run(cpu_kernels(), nullptr);
  } catch (const std::invalid_argument& error) {
    // A kernel that rejects shapes does not know which work they belong to.
    throw std::invalid_argument(fmt::format("{} \"{}\": {}", to_string(work.kind), work.label, error.what()));
  }
}

void SimDevice::submit(Stream stream, Work work) {
  const std::uint32_t on = timeline(stream, "submit");
  const Nanoseconds cost = cost_of(costs_, work);
  if (cost < 0) {
    throw std::invalid_argument(fmt::format("submit on rank {}: {} \"{}\" would take {} ns", ledger_->trace.rank,
                                            to_string(work.kind), work.label, cost));
  }
  if (work.run) compute(work);
  clock_.advance_host(costs_.host_call);
  if (!work.imagined_call) {
    const auto [start, end] = clock_.work(on, cost);
    device::note(ledger_->trace, work, on, start, end);
    return;
  }
  Nanoseconds& resource_free = imagined_.free_of(options_, work.imagined_call->collectives.front().kind);
  const auto [start, end] = clock_.collective(on, clock_.ready(on, resource_free), cost);
  resource_free = end;
  device::note(ledger_->trace, work, on, start, end);
}

Event SimDevice::record(Stream stream) {
  const std::uint32_t on = timeline(stream, "record");
  const Event event{clock_.record(on) + 1};
  note(fact::EventRecorded{on, event.id});
  return event;
}

void SimDevice::wait(Stream stream, Event event) {
  const std::uint32_t on = timeline(stream, "wait");
  clock_.wait(on, number(event, "wait"));
  note(fact::EventWaited{on, event.id});
}

void SimDevice::synchronize(Stream stream) {
  const std::uint32_t on = timeline(stream, "synchronize");
  clock_.synchronize_stream(on);
  note(fact::StreamSynchronized{on});
}

void SimDevice::synchronize(Event event) {
  clock_.synchronize_event(number(event, "synchronize"));
  note(fact::EventSynchronized{event.id});
}

void SimDevice::synchronize() {
  synchronize(Device::compute);
  if (options_.single_stream) return;  // every handle is the compute stream
  for (std::uint32_t id = Device::compute.id + 1; id < clock_.streams(); ++id) synchronize(Stream{id});
}

std::shared_ptr<Storage> SimDevice::allocate(Stream stream, std::size_t bytes, MemoryClass memory,
                                             std::string_view label) {
  const std::uint32_t on = timeline(stream, "allocate");
  struct Delete {
    void operator()(std::byte* data) const { ::operator delete(data, alignment); }
  };
  const auto refuse = [&] {
    throw std::invalid_argument(
        fmt::format("allocate on rank {}: there are no {} bytes for \"{}\"", ledger_->trace.rank, bytes, label));
  };
  // A larger size would wrap around when it is rounded up.
  if (bytes > static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max())) refuse();
  std::unique_ptr<std::byte, Delete> data(static_cast<std::byte*>(::operator new(bytes, alignment, std::nothrow)));
  if (!data) refuse();
  auto made = std::make_shared<Memory>(ledger_, on, data.get(), bytes, buffers_made_ + 1, std::string(label),
                                       Memory::Origin::allocated);
  static_cast<void>(data.release());  // the storage owns it from here on
  return enter(std::move(made), on, memory);
}

std::shared_ptr<Storage> SimDevice::adopt(Stream stream, std::byte* data, std::size_t bytes, MemoryClass memory,
                                          std::string_view label) {
  const std::uint32_t on = timeline(stream, "adopt");
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(
        fmt::format("adopt on rank {}: {} bytes \"{}\" {}", ledger_->trace.rank, bytes, label, why));
  };
  if (data == nullptr && bytes > 0) refuse("without an address");
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  if (bytes > 0 && begin % largest_element != 0)
    refuse(fmt::format("begin at {}, which is not a multiple of {}", static_cast<void*>(data), largest_element));
  if (std::uintptr_t end = 0; __builtin_add_overflow(begin, bytes, &end)) refuse("end after the last address");
  // Buffers may not overlap: the race search treats two buffers as separate memory.
  const std::less<> before;
  for (const auto& [buffer, other] : ledger_->alive) {
    if (bytes > 0 && before(data, other->data() + other->bytes()) && before(other->data(), data + bytes))
      refuse(fmt::format("overlap buffer {} \"{}\", which has not been released", buffer, other->label()));
  }
  return enter(std::make_shared<Memory>(ledger_, on, data, bytes, buffers_made_ + 1, std::string(label),
                                        Memory::Origin::adopted),
               on, memory);
}

std::shared_ptr<Storage> SimDevice::enter(std::shared_ptr<Memory> made, std::uint32_t timeline, MemoryClass memory) {
  ledger_->alive[made->buffer()] = made.get();
  buffers_made_ = made->buffer();
  ledger_->live_bytes += made->bytes();
  note(fact::Allocated{timeline, made->buffer(), made->bytes(), memory, made->label(), made->is_adopted()});
  return made;
}

SimDevice::Memory& SimDevice::own(const std::shared_ptr<Storage>& storage, std::string_view operation) const {
  return static_cast<Memory&>(live_storage(storage, ledger_.get(), operation, ledger_->trace.rank));
}

void SimDevice::release(Stream stream, const std::shared_ptr<Storage>& storage) {
  const std::uint32_t on = timeline(stream, "release");
  Memory& memory = own(storage, "release");
  ledger_->give_back(on, memory, false);
  memory.retire();
}

void SimDevice::release_to_cache(Stream stream, const std::shared_ptr<Storage>& storage) {
  const std::uint32_t on = timeline(stream, "release_to_cache");
  Memory& memory = own(storage, "release_to_cache");
  if (!memory.is_adopted()) {
    throw std::invalid_argument(
        fmt::format("release_to_cache on rank {}: buffer {} \"{}\" was allocated here, not adopted: release it",
                    ledger_->trace.rank, memory.buffer(), memory.label()));
  }
  ledger_->give_back(on, memory, true);
  memory.retire();
}

void SimDevice::describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label) {
  own(storage, "describe").describe(ledger_->trace, memory, label);
}

// Runs the work while all memory that it does not declare is hidden.
void SimDevice::run_alone(const Work& work) const {
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
    for (const auto& [buffer, memory] : ledger_->alive) {
      if (!is_declared(buffer)) hidden.add(memory);
    }
    work.run(cpu_kernels(), nullptr);
  }

  for (const Tensor& written : work.writes) {
    if (written.dtype() != DType::f32) continue;
    const auto untouched = [](float value) { return std::bit_cast<std::uint32_t>(value) == 0xFFFFFFFFU; };
    if (std::ranges::none_of(written.values<float>(), untouched)) continue;
    throw std::logic_error(
        fmt::format("{} \"{}\" declares that it writes {} of buffer {}, but leaves elements unwritten: it skips them, "
                    "or copies them from a buffer that it does not declare",
                    to_string(work.kind), work.label, to_string(written.shape()), written.range().buffer));
  }
}

void SimDevice::Ledger::give_back(std::uint32_t timeline, const Memory& memory, bool to_cache) {
  alive.erase(memory.buffer());
  trace.facts.emplace_back(fact::Released{timeline, memory.buffer(), to_cache});
  live_bytes -= memory.bytes();
}

void SimDevice::host_access(std::string_view label, const std::vector<Tensor>& reads,
                            const std::vector<Tensor>& writes) {
  note(fact::HostAccess{std::string(label), ranges(reads), ranges(writes)});
}

// Issues the collectives of one call.
void SimDevice::issue(const std::string& where, std::uint32_t on, std::span<const Collective> collectives,
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
        fmt::format("{}: the fabric reports all ranks ready at {} ns, but this rank was ready at {} ns", where,
                    receipt.latest_ready_ns, ready));
  }
  clock_.advance_host(costs_.host_call);  // the host has now issued the call
  const auto [start, end] = clock_.collective(on, receipt.latest_ready_ns, cost_of(costs_, collectives));
  resource_free = end;
  for (const Collective& collective : collectives)
    note(fact_of(collective, on, group.members(), receipt.sequence, start, end));
}

void SimDevice::mark(std::string_view text) { note(fact::Mark{std::string(text), clock_.end_of(Device::compute.id)}); }

std::unique_ptr<Communicator> SimDevice::communicator(Group& group) {
  return std::make_unique<Channel>(*this, std::shared_ptr<Group>(std::shared_ptr<void>(), &group));  // borrowed
}

const Trace& SimDevice::trace() const { return ledger_->trace; }

Trace SimDevice::take_trace() { return std::exchange(ledger_->trace, Trace{.rank = ledger_->trace.rank, .facts = {}}); }

std::size_t SimDevice::live_bytes() const { return ledger_->live_bytes; }

}  // namespace shardproof::device

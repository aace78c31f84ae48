#include "harness/device/cuda/gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "harness/control/flight_ring.hpp"
#include "harness/device/cuda/cuda_kernels.hpp"
#include "harness/device/cuda/kernels/table.hpp"
#include "harness/device/cuda/nccl_comm.hpp"
#include "harness/device/cuda/staging.hpp"
#include "harness/device/cuda/vendor_error.hpp"

namespace shardproof::device::cuda {

using control::Deadline;
using protocol::FlightEntry;

namespace {

// The pauses of a wait loop. No CUDA wait ends when another rank ends, so the host polls: without pauses while work is
// short, and seldom later on.
class Patience {
 public:
  void take() {
    if (++looks_ <= eager) return std::this_thread::yield();
    std::this_thread::sleep_for(pause_);
    pause_ = std::min<std::chrono::microseconds>(2 * pause_, std::chrono::microseconds(500));
  }

 private:
  static constexpr int eager = 200;
  int looks_ = 0;
  std::chrono::microseconds pause_{5};
};

/// How long to wait for the other ranks to post, before a mismatch is reported without them.
constexpr std::chrono::seconds for_others_to_post{1};

bool wait_until(Deadline deadline, const std::function<bool()>& is_ready) {
  for (Patience patience; !is_ready(); patience.take()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

// Holds the largest copy of any model in the suites many times.
constexpr std::size_t staging_bytes = std::size_t{4} << 20;
constexpr int most_uploads = 256;  // in flight at once

}  // namespace

// The words through which host and kernels communicate.
struct Gpu::Words {
  std::uint32_t abort;
  bodies::IndexError index_error;
};

Gpu::Gpu(const VendorTables& vendor, GpuContext context) : vendor_(vendor), context_(std::move(context)) {
  name_ = fmt::format("GPU {}", context_.ordinal);
  int count = 0;
  check(cuda().device_count(&count), "cudaGetDeviceCount");
  if (context_.ordinal >= count) {
    throw std::runtime_error(
        fmt::format("rank {}: there is no GPU {}; this process sees {}", rank(), context_.ordinal, count));
  }
  check(cuda().set_device(context_.ordinal), "cudaSetDevice");
  check(cuda().device_properties(context_.ordinal, &properties_), "cudaGetDeviceProperties");
  name_ += fmt::format(" ({})", properties_.name);
  try {
    void *on_host = nullptr, *on_device = nullptr;
    check(cuda().host_allocate(&on_host, &on_device, sizeof(Words)), "cudaHostAlloc");
    words_ = new (on_host) Words{};
    auto* const seen = static_cast<Words*>(on_device);
    on_device_ = seen;
    void* same_on_device = nullptr;
    check(cuda().host_allocate(&pinned_, &same_on_device, staging_bytes), "cudaHostAlloc");
    std::vector<EventHandle> uploads;
    for (int i = 0; i < most_uploads; ++i) uploads.push_back(take_event());
    staging_ = std::make_unique<Staging>(cuda(), std::span(static_cast<std::byte*>(pinned_), staging_bytes),
                                         std::move(uploads));
    kernels_ = std::make_unique<CudaKernels>(vendor_, &seen->index_error, *staging_,
                                             [this](Status status, const char* library, const char* operation) {
                                               if (std::string_view(library) != "cuBLAS")
                                                 return check(status, operation);
                                               throw VendorError(library, status, vendor_.cublas->error_name(status),
                                                                 {.operation = operation,
                                                                  .rank = rank(),
                                                                  .gpu = name_,
                                                                  .stream = {},
                                                                  .location = std::source_location::current()});
                                             });
    if (context_.keeps_records) start_records();
    check(vendor_.kernels->warm_up(), "cudaFuncGetAttributes");
    housekeeping_ = create_stream("housekeeping");
    warm_up_products();
  } catch (...) {
    release();
    throw;
  }
}

Gpu::~Gpu() { release(); }

void Gpu::start_records() {
  const char* why = "its backend does not use CUPTI";
  const ActivityTable* const table = vendor_.activity == nullptr ? nullptr : vendor_.activity(&why);
  if (table == nullptr)
    throw std::runtime_error(fmt::format("rank {}, {}: no times from CUPTI: {}", rank(), name_, why));
  activity_ = std::make_unique<ActivityLog>(*table, *this);
}

// cuBLAS loads kernels and allocates at its first products. If a gate were closed by then, it would wait forever.
void Gpu::warm_up_products() {
  struct Scratch final : Storage {
    Scratch(void* data, std::size_t bytes) : Storage(static_cast<std::byte*>(data), bytes, 1, MemorySpace::device) {}
  };
  constexpr std::size_t bytes = 64;
  void* memory = nullptr;
  check(cuda().malloc_async(&memory, bytes, housekeeping_), "cudaMallocAsync", housekeeping_);
  scratch_ = memory;  // freed with the GPU
  check(cuda().memset_async(memory, 0, bytes, housekeeping_), "cudaMemsetAsync", housekeeping_);
  const auto storage = std::make_shared<Scratch>(memory, bytes);
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor one(storage, dtype, {1, 1}), product(storage, dtype, {1, 1}, bytes / 2);
    kernels_->matmul(housekeeping_, product, one, one, {});
  }
  run_through(housekeeping_, "warming up");
}

// Errors from freeing are ignored: they can change nothing any more. On a lost GPU everything stays, because work may
// still use it.
void Gpu::release() noexcept {
  if (is_lost_) {
    static_cast<void>(kernels_.release());
    static_cast<void>(staging_.release());
    static_cast<void>(activity_.release());
    return;
  }
  destroy_retired();
  activity_.reset();
  if (scratch_ != nullptr) cuda().free_async(scratch_, housekeeping_);
  if (housekeeping_ != nullptr) destroy_stream(housekeeping_);
  for (EventHandle event : events_) cuda().event_destroy(event);
  kernels_.reset();
  staging_.reset();
  if (pinned_ != nullptr) cuda().host_free(pinned_);
  if (words_ != nullptr) cuda().host_free(words_);
}

const std::uint32_t* Gpu::abort_flag() const { return &on_device_->abort; }

std::string_view Gpu::stream_name(StreamHandle stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? std::string_view() : found->second;
}

void Gpu::check(Status status, std::string_view operation, StreamHandle stream, std::source_location location) const {
  if (status == 0) return;
  throw VendorError("CUDA", status, fmt::format("{}: {}", cuda().error_name(status), cuda().error_text(status)),
                    {operation, rank(), name_, stream_name(stream), location});
}

void Gpu::fail_nccl(Status status, std::string_view operation, std::string_view in_words, StreamHandle stream,
                    std::source_location location) const {
  throw VendorError("NCCL", status,
                    fmt::format("{}{}{}", nccl().error_text(status), in_words.empty() ? "" : ": ", in_words),
                    {operation, rank(), name_, stream_name(stream), location});
}

StreamHandle Gpu::create_stream(const std::string& name) {
  StreamHandle stream = nullptr;
  check(cuda().stream_create(&stream, name.c_str()), "cudaStreamCreateWithFlags");
  streams_.emplace(stream, name);
  return stream;
}

void Gpu::destroy_stream(StreamHandle stream) noexcept {
  streams_.erase(stream);
  cuda().stream_destroy(stream);
}

EventHandle Gpu::take_event() {
  if (!free_events_.empty()) {
    EventHandle event = free_events_.back();
    free_events_.pop_back();
    return event;
  }
  if (events_.size() == events_.capacity()) events_.reserve(2 * events_.size() + 16);
  EventHandle event = nullptr;
  check(cuda().event_create(&event), "cudaEventCreate");
  events_.push_back(event);
  return event;
}

void Gpu::give_back(EventHandle event) noexcept {
  try {
    free_events_.push_back(event);
  } catch (const std::exception&) {  // no memory: the event is not reused
  }
}

EventHandle Gpu::record(StreamHandle stream) {
  EventHandle event = take_event();
  if (const Status status = cuda().event_record(event, stream); status != 0) {
    give_back(event);
    check(status, "cudaEventRecord", stream);
  }
  return event;
}

void Gpu::emit_marker(StreamHandle stream, std::uint64_t id) {
  const ActivityLog::Scope scope(activity_.get(), id);
  check(cuda().memset_async(scratch_, 0, sizeof(std::uint32_t), stream), "cudaMemsetAsync", stream);
}

void Gpu::check_agreement(bool is_late) const {
  using Look = fabric::DescriptorBoard::Look;
  for (const NcclComm* comm : comms_) comm->check_agreement(is_late ? Look::at_everything : Look::at_whole_calls);
}

const NcclComm* Gpu::find_bereft() const {
  const auto found = std::ranges::find_if(comms_, [](const NcclComm* comm) { return comm->is_bereft(); });
  return found == comms_.end() ? nullptr : *found;
}

std::string Gpu::missing_calls() const {
  std::string text;
  for (const NcclComm* comm : comms_) {
    if (const std::string missing = comm->is_gone() ? "" : comm->missing_calls(); !missing.empty())
      text += "; " + missing;
  }
  return text;
}

void Gpu::require_usable() const {
  if (is_lost_)
    throw GpuLost(fmt::format("rank {}: {} is lost: its work did not stop when the harness asked", rank(), name_));
}

// A kernel cannot throw. This reports what the kernel found wrong in its operands.
void Gpu::check_indices() {
  if (std::atomic_ref(words_->index_error.kind).load(std::memory_order_acquire) == bodies::IndexKind::none) return;
  const bodies::IndexError error = std::exchange(words_->index_error, {});
  cuda::check(error);
}

std::shared_ptr<JoinedGroup> Gpu::joined(protocol::FlightGroup group) const {
  auto joined = std::make_shared<JoinedGroup>(JoinedGroup{.known = std::move(group)});
  protocol::FlightGroup& known = joined->known;
  std::ranges::sort(known.members);
  if (context_.flight != nullptr) joined->place = context_.flight->join_group(known.id, known.name, known.members);
  return joined;
}

// Writes a call to the flight record, which may have forgotten the group since the rank joined it.
void Gpu::enter(const IssuedCall& call) const {
  control::FlightRing& flight = *context_.flight;
  const protocol::FlightGroup& group = call.group->known;
  if (!flight.knows_group(call.group->place, group.id))
    call.group->place = flight.join_group(group.id, group.name, group.members);
  flight.enter_call(group.id, context_.epoch(), call.call);
  flight.meet();
}

void Gpu::issued(const IssuedCall& call) const {
  if (context_.flight == nullptr) return;
  enter(call);
  context_.flight->end(FlightEntry::State::left);  // as far as the host is concerned
}

// Records a long wait in the flight record. The collective that blocks the rank appears there again, as a call that the
// rank waits in.
class Gpu::WaitRecord {
 public:
  explicit WaitRecord(const Gpu& gpu) : gpu_(gpu) {}

  void look(Deadline begun, Deadline now) {
    control::FlightRing* const flight = gpu_.context_.flight;
    if (is_entered_ || flight == nullptr || !gpu_.first_open_call_ || now < begun + long_enough) return;
    const std::optional<IssuedCall> open = gpu_.first_open_call_();
    if (!open) return;
    gpu_.enter(*open);
    flight->wait(begun);
    is_entered_ = true;
  }
  void end(FlightEntry::State how) const {
    if (is_entered_) gpu_.context_.flight->end(how);
  }

 private:
  static constexpr std::chrono::milliseconds long_enough{50};
  const Gpu& gpu_;
  bool is_entered_ = false;
};

void Gpu::await(const std::function<bool()>& is_ready, const std::function<std::string()>& late) {
  require_usable();
  const Deadline begun = std::chrono::steady_clock::now(), deadline = context_.give_up_at(begun);
  std::optional<Deadline> bereft_since;
  WaitRecord record(*this);
  try {
    for (Patience patience;; patience.take()) {
      // Checks everything that could end the wait before readiness, so that a wait that is ready by then succeeds.
      const Deadline now = std::chrono::steady_clock::now();
      std::exception_ptr is_over;
      try {
        context_.check();
      } catch (...) {
        is_over = std::current_exception();
      }
      check_agreement(now > begun + for_others_to_post);
      const NcclComm* const bereft = find_bereft();
      if (is_ready() && bereft == nullptr) {
        record.end(FlightEntry::State::left);
        break;
      }
      record.look(begun, now);
      if (is_over) std::rethrow_exception(is_over);
      // A peer that fails leaves its communicators first, and reports the reason a moment later.
      if (bereft != nullptr && !bereft_since) bereft_since = now;
      if (bereft != nullptr && now > *bereft_since + 2 * context_.for_abort) bereft->fail_bereft();
      if (now > deadline) throw control::DeadlineExceeded(late() + missing_calls());
    }
  } catch (const control::DeadlineExceeded&) {
    record.end(FlightEntry::State::given_up);
    abandon();
    throw;
  } catch (const Mismatch&) {
    record.end(FlightEntry::State::refused);
    abandon();
    throw;
  } catch (...) {
    record.end(FlightEntry::State::released);
    abandon();
    throw;
  }
  check_indices();
}

void Gpu::await(EventHandle event, const std::function<std::string()>& late) {
  await(
      [&] {
        const Status status = cuda().event_query(event);
        if (status == cuda().not_ready) return false;
        check(status, "cudaEventQuery");
        return true;
      },
      late);
  check(cuda().event_synchronize(event), "cudaEventSynchronize");
}

bool Gpu::ends_soon(const std::function<bool()>& is_ready) noexcept {
  constexpr std::chrono::seconds soon{1};
  try {
    return wait_until(std::chrono::steady_clock::now() + soon, [&] {
      const bool is_over = is_ready();
      if (!is_over) context_.check();
      return is_over;
    });
  } catch (const std::exception&) {
    return false;
  }
}

void Gpu::run_through(StreamHandle stream, std::string_view what) {
  const EventHandle event = record(stream);
  await(event, [&] { return fmt::format("{} on rank {} has not ended", what, rank()); });
  give_back(event);
}

void Gpu::complain(const std::exception& error) noexcept {
  try {
    if (complaint_.empty()) complaint_ = error.what();
  } catch (const std::exception&) {  // no memory for the text
  }
}

std::string Gpu::defect() const {
  if (is_lost_) return fmt::format("{} is lost: its work did not stop when the harness asked", name_);
  const Status status = cuda().peek_at_last_error();
  return status == 0 ? std::string() : fmt::format("{} is out of order: {}", name_, cuda().error_name(status));
}

// Runs calls in a separate thread, because they are known to hang.
bool Gpu::within_bounds(std::function<void()> calls) noexcept {
  try {
    const auto done = std::make_shared<std::promise<void>>();
    std::future<void> future = done->get_future();
    std::thread([done, calls = std::move(calls), &cuda = cuda(), ordinal = context_.ordinal] {
      cuda.set_device(ordinal);
      calls();
      done->set_value();
    }).detach();
    return future.wait_for(context_.for_abort) == std::future_status::ready;
  } catch (const std::exception&) {
    return false;  // no memory, or no thread
  }
}

bool Gpu::abort_communicators() noexcept {
  try {
    // An abort waits for the current call of its communicator, which may wait for kernels of another communicator. So
    // busy communicators go last.
    std::ranges::stable_partition(comms_, [](const NcclComm* comm) {
      try {
        return !comm->is_busy();
      } catch (const VendorError&) {
        return true;
      }
    });
    std::vector<CommHandle> handles;
    for (NcclComm* comm : comms_) {
      if (CommHandle handle = comm->surrender(); handle != nullptr) handles.push_back(handle);
    }
    if (handles.empty()) return true;
    return within_bounds([handles, &nccl = nccl()] {
      // Aborts them together: one abort after the other would wait for kernels of the next communicator.
      nccl.group_start();
      for (CommHandle handle : handles) nccl.comm_abort(handle);
      nccl.group_end();
    });
  } catch (const std::exception&) {
    return false;
  }
}

void Gpu::retire(CommHandle comm) { retired_.push_back(comm); }

void Gpu::destroy_retired() noexcept {
  if (retired_.empty() || is_lost_) return;
  const auto calls = [handles = std::exchange(retired_, {}), &nccl = nccl()] {
    for (CommHandle handle : handles) nccl.comm_destroy(handle);
  };
  is_lost_ = !within_bounds(calls);
}

bool Gpu::run_empty() noexcept {
  const Deadline deadline = std::chrono::steady_clock::now() + context_.for_abort;
  try {
    for (const auto& [stream, name] : streams_) {
      const EventHandle event = record(stream);
      Status status = 0;
      const bool is_over =
          wait_until(deadline, [&, event = event] { return (status = cuda().event_query(event)) != cuda().not_ready; });
      if (!is_over || status != 0) return false;  // and the event is still needed, or the context is broken
      give_back(event);
    }
    return true;
  } catch (const std::exception&) {
    return false;  // the context is broken
  }
}

void Gpu::abandon() noexcept {
  if (is_lost_) return;
  std::atomic_ref flag(words_->abort);
  flag.store(1, std::memory_order_release);
  is_lost_ = !abort_communicators() || !run_empty();
  if (is_lost_) return;
  flag.store(0, std::memory_order_release);
  words_->index_error = {};
}

}  // namespace shardproof::device::cuda

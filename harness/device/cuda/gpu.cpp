#include "harness/device/cuda/gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "harness/device/cuda/cuda_kernels.hpp"
#include "harness/device/cuda/kernels/table.hpp"
#include "harness/device/cuda/nccl_comm.hpp"

namespace shardproof::cuda {

namespace {

// Hardware has nothing to sleep on that ends when another rank does, so it is looked at again and again: at once while work is short, and
// seldom later on.
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

/// Before ranks that ask for different things are named although others have not come.
constexpr std::chrono::seconds for_others_to_post{1};

bool wait_until(Deadline deadline, const std::function<bool()>& is_ready) {
  for (Patience patience; !is_ready(); patience.take()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
  }
  return true;
}

}  // namespace

// What host and kernels tell each other.
struct Gpu::Words {
  std::uint32_t abort;
  bodies::IndexError index_error;
};

Gpu::Gpu(const VendorTables& vendor, Surroundings surroundings) : vendor_(vendor), surroundings_(std::move(surroundings)) {
  name_ = fmt::format("GPU {}", surroundings_.ordinal);
  int count = 0;
  check(cuda().device_count(&count), "cudaGetDeviceCount");
  if (surroundings_.ordinal >= count) {
    throw std::runtime_error(fmt::format("rank {}: there is no GPU {}; this process sees {}", rank(), surroundings_.ordinal, count));
  }
  check(cuda().set_device(surroundings_.ordinal), "cudaSetDevice");
  check(cuda().device_properties(surroundings_.ordinal, &properties_), "cudaGetDeviceProperties");
  name_ += fmt::format(" ({})", properties_.name);
  try {
    void *on_host = nullptr, *on_device = nullptr;
    check(cuda().host_allocate(&on_host, &on_device, sizeof(Words)), "cudaHostAlloc");
    words_ = new (on_host) Words{};
    auto* const seen = static_cast<Words*>(on_device);
    on_device_ = seen;
    kernels_ = std::make_unique<CudaKernels>(vendor_, SharedWords{&seen->abort, &seen->index_error},
                                             [this](Status status, const char* library, const char* operation) {
                                               if (std::string_view(library) == "cuBLAS") return check_blas(status, operation);
                                               check(status, operation);
                                             });
    check(vendor_.kernels->warm_up(), "cudaFuncGetAttributes");
  } catch (...) {
    release();
    throw;
  }
}

Gpu::~Gpu() { release(); }

// Errors of what is given back can change nothing any more. Of a GPU that is lost everything stays: work may still use it.
void Gpu::release() noexcept {
  if (is_lost_) {
    static_cast<void>(kernels_.release());
    return;
  }
  for (EventHandle event : free_events_) cuda().event_destroy(event);
  kernels_.reset();
  if (words_ != nullptr) cuda().host_free(words_);
}

const std::uint32_t* Gpu::abort_flag() const { return &on_device_->abort; }

std::string_view Gpu::stream_name(StreamHandle stream) const {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? std::string_view() : found->second;
}

void Gpu::check(Status status, std::string_view operation, StreamHandle stream, std::source_location location) const {
  if (status == 0) return;
  throw VendorError(Library::cuda, status, fmt::format("{}: {}", cuda().error_name(status), cuda().error_text(status)),
                    {operation, rank(), name_, stream_name(stream), location});
}

void Gpu::check_blas(Status status, std::string_view operation, StreamHandle stream, std::source_location location) const {
  if (status == 0) return;
  throw VendorError(Library::cublas, status, vendor_.cublas->error_name(status), {operation, rank(), name_, stream_name(stream), location});
}

void Gpu::fail_nccl(Status status, std::string_view operation, std::string_view in_words, StreamHandle stream,
                    std::source_location location) const {
  throw VendorError(Library::nccl, status, fmt::format("{}{}{}", nccl().error_text(status), in_words.empty() ? "" : ": ", in_words),
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
  EventHandle event = nullptr;
  check(cuda().event_create(&event), "cudaEventCreate");
  return event;
}

void Gpu::give_back(EventHandle event) noexcept {
  try {
    free_events_.push_back(event);
  } catch (const std::exception&) {  // no memory to remember it by
    cuda().event_destroy(event);
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

// What ranks disagree about is why their communicators fail.
void Gpu::check_communicators(bool is_late) const {
  using Look = DescriptorBoard::Look;
  for (const NcclComm* comm : comms_) comm->check_agreement(is_late ? Look::at_everything : Look::at_whole_calls);
  for (const NcclComm* comm : comms_) comm->check_health();
}

void Gpu::await(const std::function<bool()>& is_ready, const std::function<std::string()>& late) {
  if (is_lost_) throw GpuLost(fmt::format("rank {}: {} is lost: work on it did not end when it was told to", rank(), name_));
  const Deadline begun = std::chrono::steady_clock::now(), deadline = surroundings_.give_up_at(begun);
  try {
    for (Patience patience; !is_ready(); patience.take()) {
      const Deadline now = std::chrono::steady_clock::now();
      surroundings_.check();
      check_communicators(now > begun + for_others_to_post);
      if (now > deadline) throw DeadlineExceeded(late());
    }
    check_communicators(false);
  } catch (...) {
    abandon();
    throw;
  }
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
  // A kernel cannot throw: what it found wrong in its operands is said here.
  if (std::atomic_ref(words_->index_error.kind).load(std::memory_order_acquire) == bodies::IndexKind::none) return;
  const bodies::IndexError error = std::exchange(words_->index_error, {});
  cuda::check(error);
}

bool Gpu::abort_communicators() noexcept {
  if (comms_.empty()) return true;
  // Aborting one after the other would wait for the kernels of the next; and the abort itself is known to hang, so it has a thread to do so in.
  try {
    struct Outcome {
      std::promise<void> done;
    };
    const auto outcome = std::make_shared<Outcome>();
    std::vector<CommHandle> handles;
    for (NcclComm* comm : comms_) {
      if (CommHandle handle = comm->surrender(); handle != nullptr) handles.push_back(handle);
    }
    std::future<void> done = outcome->done.get_future();
    std::thread([outcome, handles, &nccl = nccl(), &cuda = cuda(), ordinal = surroundings_.ordinal] {
      cuda.set_device(ordinal);
      nccl.group_start();
      for (CommHandle handle : handles) nccl.comm_abort(handle);
      nccl.group_end();
      outcome->done.set_value();
    }).detach();
    return done.wait_for(surroundings_.for_abort) == std::future_status::ready;
  } catch (const std::exception&) {
    return false;  // no memory, or no thread
  }
}

bool Gpu::run_empty() noexcept {
  const Deadline deadline = std::chrono::steady_clock::now() + surroundings_.for_abort;
  try {
    for (const auto& [stream, name] : streams_) {
      const EventHandle event = record(stream);
      const bool is_empty = wait_until(deadline, [&, event = event] { return cuda().event_query(event) != cuda().not_ready; });
      if (!is_empty) return false;  // and the event is still needed
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
  if (!comms_.empty()) ++generation_;
  is_lost_ = !abort_communicators() || !run_empty();
  if (!is_lost_) flag.store(0, std::memory_order_release);
}

}  // namespace shardproof::cuda

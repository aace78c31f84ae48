#include "tests/device/cuda/cpu_runtime.hpp"

#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace shardproof::device::cuda::cpu {

class Launch::Records {
 public:
  void add(const ActivityRecord& record) {
    const std::lock_guard lock(mutex_);
    records_.push_back(record);
  }
  std::vector<ActivityRecord> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(records_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<ActivityRecord> records_;
};

// Ranks may be threads of one process: each has records of its own.
struct ThisRank {
  std::shared_ptr<Launch::Records> records;  // nullptr: none are kept
  std::vector<ActivityRecord> handed_over;
  std::vector<std::uint64_t> ids;

  Status start() {
    records = std::make_shared<Launch::Records>();
    return 0;
  }
  Status flush(const ActivityRecord** first, std::size_t* count, std::size_t* dropped) {
    if (records == nullptr) return not_started;
    handed_over = records->take();
    *first = handed_over.data();
    *count = handed_over.size();
    *dropped = 0;
    return 0;
  }
};

namespace {

thread_local ThisRank this_rank;

constexpr int gpus = 8;

// Each rank is one host thread. Its clock moves only when it waits for its streams.
thread_local Nanoseconds host_clock = 0;

std::atomic<std::int64_t> allocations = 0;

// One recording of an event.
class Moment {
 public:
  void come(Nanoseconds time) {
    const std::lock_guard lock(mutex_);  // also while waiters are notified: the first of them may destroy this
    time_ = time;
    has_come_ = true;
    came_.notify_all();
  }
  Nanoseconds wait() const {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [this] { return has_come_; });
    return time_;
  }
  bool has_come() const {
    const std::lock_guard lock(mutex_);
    return has_come_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable came_;
  Nanoseconds time_ = 0;
  bool has_come_ = false;
};

// Lives until its thread has done all that it was given, as a destroyed stream does.
class Queue : public std::enable_shared_from_this<Queue> {
 public:
  void start() {
    std::thread([self = shared_from_this()] { self->work(); }).detach();
  }
  void put(Task task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    more_.notify_one();
  }
  void close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
    }
    more_.notify_one();
  }

 private:
  void work() {
    Nanoseconds end = 0;
    for (;;) {
      Task task;
      {
        std::unique_lock lock(mutex_);
        more_.wait(lock, [this] { return is_closed_ || !tasks_.empty(); });
        if (tasks_.empty()) return;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      task(end);
    }
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<Task> tasks_;
  bool is_closed_ = false;
};

struct Stream {
  std::shared_ptr<Queue> queue = std::make_shared<Queue>();
};

struct Event {
  std::shared_ptr<Moment> last;
};

Queue& queue_of(StreamHandle stream) {
  if (stream == nullptr) {  // the default stream
    static const std::shared_ptr<Queue> shared = [] {
      auto made = std::make_shared<Queue>();
      made->start();
      return made;
    }();
    return *shared;
  }
  return *static_cast<Stream*>(stream)->queue;
}

Event& event_of(EventHandle event) { return *static_cast<Event*>(event); }

Status driver_version(int* version) {
  *version = 13000;
  return 0;
}

std::string uuid_of(int gpu) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "GPU-00000000-0000-0000-0000-%012d", gpu);
  return text.data();
}

// As CUDA reads CUDA_VISIBLE_DEVICES: indices or beginnings of uuids, and nothing from the first on that names no GPU.
std::vector<int> read_visible() {
  std::vector<int> seen;
  const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int gpu = 0; gpu < gpus; ++gpu) seen.push_back(gpu);
    return seen;
  }
  std::istringstream names(text);
  for (std::string name; std::getline(names, name, ',');) {
    int found = 0;
    while (found < gpus && name != std::to_string(found) &&
           !(name.starts_with("GPU-") && uuid_of(found).starts_with(name)))
      ++found;
    if (found == gpus) break;
    seen.push_back(found);
  }
  return seen;
}

const std::vector<int>& visible() {
  static const std::vector<int> seen = read_visible();
  return seen;
}

bool is_ordinal(int device) { return device >= 0 && device < static_cast<int>(visible().size()); }

Status device_count(int* count) {
  *count = static_cast<int>(visible().size());
  return *count == 0 ? no_device : 0;
}

Status device_properties(int device, GpuProperties* properties) {
  if (!is_ordinal(device)) return invalid_value;
  const int gpu = visible()[static_cast<std::size_t>(device)];
  *properties = {};
  std::snprintf(properties->name, sizeof properties->name, "threads of this process");
  std::snprintf(properties->uuid, sizeof properties->uuid, "%s", uuid_of(gpu).c_str());
  std::snprintf(properties->bus_id, sizeof properties->bus_id, "cccc:%02x:00.0", gpu);
  properties->memory_bytes = std::uint64_t{1} << 30;
  properties->compute_major = 9;
  properties->multiprocessors = 1;
  return 0;
}

// The last GPU is different: it can access no other GPU, no other GPU can access it, and it is too hot.
constexpr int outsider = 7;

Status peer_properties(int device, int peer, PeerProperties* properties) {
  if (!is_ordinal(device) || !is_ordinal(peer) || device == peer) return invalid_value;
  const auto gpu = [](int ordinal) { return visible()[static_cast<std::size_t>(ordinal)]; };
  const bool are_close = gpu(device) != outsider && gpu(peer) != outsider;
  *properties = {.can_access = are_close ? 1 : 0,
                 .performance_rank = are_close ? 0 : 1,
                 .native_atomics = are_close ? 1 : 0,
                 .nvlink = -1};
  return 0;
}

Status device_state(int device, GpuState* state) {
  if (!is_ordinal(device)) return invalid_value;
  const bool is_hot = visible()[static_cast<std::size_t>(device)] == outsider;
  constexpr std::int64_t idle = 1;
  *state = {.clock_khz = 0, .memory_clock_khz = 0, .slowed_by = is_hot ? std::int64_t{slowed_by_heat_software} : idle};
  return 0;
}

Status set_device(int device) { return is_ordinal(device) ? 0 : invalid_value; }

Status stream_create(StreamHandle* stream, const char*) {
  auto made = std::make_unique<Stream>();
  made->queue->start();
  *stream = made.release();
  return 0;
}

Status stream_destroy(StreamHandle stream) {
  const std::unique_ptr<Stream> gone(static_cast<Stream*>(stream));
  gone->queue->close();
  return 0;
}

Status stream_wait_event(StreamHandle stream, EventHandle event) {
  if (const std::shared_ptr<Moment> moment = event_of(event).last) {  // of one never recorded, nothing is waited for
    enqueue(stream, [moment](Nanoseconds& end, Nanoseconds) { end = std::max(end, moment->wait()); });
  }
  return 0;
}

Status event_create(EventHandle* event) {
  *event = new Event;
  return 0;
}

Status event_destroy(EventHandle event) {
  delete &event_of(event);
  return 0;
}

Status event_record(EventHandle event, StreamHandle stream) {
  const auto moment = std::make_shared<Moment>();
  event_of(event).last = moment;
  enqueue(stream, [moment](Nanoseconds& end, Nanoseconds issued) { moment->come(std::max(end, issued)); });
  return 0;
}

Status event_query(EventHandle event) {
  const std::shared_ptr<Moment>& last = event_of(event).last;
  return last == nullptr || last->has_come() ? 0 : not_ready;
}

Status event_synchronize(EventHandle event) {
  if (const std::shared_ptr<Moment>& last = event_of(event).last) host_clock = std::max(host_clock, last->wait());
  return 0;
}

Status event_elapsed_ns(std::int64_t* nanoseconds, EventHandle start, EventHandle end) {
  if (event_of(start).last == nullptr || event_of(end).last == nullptr) return invalid_value;
  if (event_query(start) != 0 || event_query(end) != 0) return not_ready;
  *nanoseconds = event_of(end).last->wait() - event_of(start).last->wait();
  return 0;
}

// Released memory keeps its bytes for a while, as in a GPU's pool. So a use after release finds or changes values, and
// not the allocator's data. It outlives the threads of streams, which are not joined when the process ends.
class Quarantine {
 public:
  void add(void* memory) {
    const std::lock_guard lock(mutex_);
    kept_.push_back(memory);
    bytes_ += malloc_usable_size(memory);
    for (; bytes_ > most_bytes; kept_.pop_front()) {
      bytes_ -= malloc_usable_size(kept_.front());
      std::free(kept_.front());
    }
  }

 private:
  static constexpr std::size_t most_bytes = std::size_t{16} << 20;
  std::mutex mutex_;
  std::deque<void*> kept_;
  std::size_t bytes_ = 0;
};
Quarantine& quarantine = *new Quarantine;

Status malloc_async(void** memory, std::size_t bytes, StreamHandle) {
  *memory = std::malloc(bytes);
  if (*memory == nullptr) return out_of_memory;
  ++allocations;
  return 0;
}

Status free_async(void* memory, StreamHandle stream) {
  enqueue(stream, [memory](Nanoseconds&, Nanoseconds) {
    quarantine.add(memory);
    --allocations;
  });
  return 0;
}

Status memset_async(void* memory, int value, std::size_t bytes, StreamHandle stream) {
  enqueue(stream, [=, launched = Launch(stream)](Nanoseconds& end, Nanoseconds issued) {
    std::memset(memory, value, bytes);
    launched.ran(std::max(end, issued), std::max(end, issued));
  });
  return 0;
}

// The pinned memory of all ranks of this process.
class PinnedMemory {
 public:
  void add(void* memory, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<const std::byte*>(memory)] = bytes;
  }
  void remove(void* memory) {
    const std::lock_guard lock(mutex_);
    blocks_.erase(static_cast<const std::byte*>(memory));
  }
  bool contains(const void* memory) const {
    const std::lock_guard lock(mutex_);
    const auto* const byte = static_cast<const std::byte*>(memory);
    const auto after = blocks_.upper_bound(byte);
    if (after == blocks_.begin()) return false;
    const auto& [begin, bytes] = *std::prev(after);
    return byte < begin + bytes;
  }

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::size_t> blocks_;
} pinned_memory;

Status memcpy_async(void* to, const void* from, std::size_t bytes, CopyKind kind, StreamHandle stream) {
  switch (kind) {
    case CopyKind::device_to_device: launch(stream, 0, [=] { std::memmove(to, from, bytes); }); break;
    case CopyKind::host_to_device: {
      if (pinned_memory.contains(from)) {
        launch(stream, 0, [=] { std::memcpy(to, from, bytes); });
        break;
      }
      const auto* const first = static_cast<const std::byte*>(from);
      launch(stream, 0, [to, staged = std::vector<std::byte>(first, first + bytes)] {
        if (!staged.empty()) std::memcpy(to, staged.data(), staged.size());
      });
      break;
    }
    case CopyKind::device_to_host: {
      Moment done;
      enqueue(stream, [&, launched = Launch(stream)](Nanoseconds& end, Nanoseconds issued) {
        std::memcpy(to, from, bytes);
        launched.ran(std::max(end, issued), std::max(end, issued));
        done.come(0);
      });
      done.wait();
      break;
    }
  }
  return 0;
}

Status host_allocate(void** host, void** device, std::size_t bytes) {
  *host = *device = std::calloc(1, bytes);
  if (*host == nullptr) return out_of_memory;
  pinned_memory.add(*host, bytes);
  return 0;
}

Status host_free(void* host) {
  pinned_memory.remove(host);
  std::free(host);
  return 0;
}

Status peek_at_last_error() { return 0; }

const char* error_name(Status status) {
  switch (status) {
    case 0: return "cudaSuccess";
    case invalid_value: return "cudaErrorInvalidValue";
    case out_of_memory: return "cudaErrorMemoryAllocation";
    case no_device: return "cudaErrorNoDevice";
    case not_ready: return "cudaErrorNotReady";
    default: return "an error that was planted";
  }
}

// Its clock is another one than that of events.
constexpr Nanoseconds clock_ahead = 1'700'000'000'000'000'000;

Status start() { return this_rank.start(); }

Status stop() {
  if (this_rank.records == nullptr) return not_started;
  this_rank.records.reset();
  return 0;
}

Status push_id(std::uint64_t id) {
  this_rank.ids.push_back(id);
  return 0;
}

Status pop_id() {
  if (this_rank.ids.empty()) return queue_empty;
  this_rank.ids.pop_back();
  return 0;
}

Status flush(const ActivityRecord** records, std::size_t* count, std::size_t* dropped) {
  return this_rank.flush(records, count, dropped);
}

const char* activity_error_name(Status status) {
  switch (status) {
    case 0: return "CUPTI_SUCCESS";
    case not_started: return "CUPTI_ERROR_NOT_INITIALIZED";
    case queue_empty: return "CUPTI_ERROR_QUEUE_EMPTY";
    default: return "an error that was planted";
  }
}

}  // namespace

Launch::Launch(StreamHandle stream, By by)
    : records_(this_rank.records), stream_(reinterpret_cast<std::uintptr_t>(stream)) {
  if (by == By::this_thread && !this_rank.ids.empty()) id_ = this_rank.ids.back();
}

void Launch::ran(Nanoseconds start, Nanoseconds end) const {
  if (records_ != nullptr)
    records_->add({.id = id_, .stream = stream_, .start_ns = clock_ahead + start, .end_ns = clock_ahead + end});
}

void enqueue(StreamHandle stream, std::function<void(Nanoseconds& end, Nanoseconds issued)> task) {
  queue_of(stream).put([task = std::move(task), issued = host_clock](Nanoseconds& end) { task(end, issued); });
}

void launch(StreamHandle stream, Nanoseconds cost, std::function<void()> work) {
  enqueue(stream, [cost, work = std::move(work), launched = Launch(stream)](Nanoseconds& end, Nanoseconds issued) {
    work();
    const Nanoseconds start = std::max(end, issued);
    end = start + cost;
    launched.ran(start, end);
  });
}

std::int64_t live_allocations() { return allocations; }

const ActivityTable& activity() {
  static constexpr ActivityTable table{.start = start,
                                       .stop = stop,
                                       .push_id = push_id,
                                       .pop_id = pop_id,
                                       .flush = flush,
                                       .error_name = activity_error_name,
                                       .error_text = activity_error_name};
  return table;
}

const CudaTable& runtime() {
  static const CudaTable table{.not_ready = not_ready,
                               .driver_version = driver_version,
                               .runtime_version = driver_version,
                               .device_count = device_count,
                               .device_properties = device_properties,
                               .peer_properties = peer_properties,
                               .device_state = device_state,
                               .set_device = set_device,
                               .stream_create = stream_create,
                               .stream_destroy = stream_destroy,
                               .stream_wait_event = stream_wait_event,
                               .event_create = event_create,
                               .event_destroy = event_destroy,
                               .event_record = event_record,
                               .event_query = event_query,
                               .event_synchronize = event_synchronize,
                               .event_elapsed_ns = event_elapsed_ns,
                               .malloc_async = malloc_async,
                               .free_async = free_async,
                               .memset_async = memset_async,
                               .memcpy_async = memcpy_async,
                               .host_allocate = host_allocate,
                               .host_free = host_free,
                               .peek_at_last_error = peek_at_last_error,
                               .error_name = error_name,
                               .error_text = error_name};
  return table;
}

}  // namespace shardproof::device::cuda::cpu

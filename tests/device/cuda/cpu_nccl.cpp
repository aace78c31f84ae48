#include "tests/device/cuda/cpu_nccl.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/fabric/shm/shm_fabric.hpp"
#include "tests/device/cuda/cpu_runtime.hpp"

namespace shardproof::device::cuda::cpu {

namespace {

// ncclResult_t.
constexpr Status system_error = 2, invalid_argument = 4, invalid_usage = 5, remote_error = 6, in_progress = 7;

constexpr char nonce[] = "cpu-nccl";
constexpr std::uint32_t only_epoch = 1;
constexpr std::chrono::hours for_ever{24};

// The ranks' common ground: outlives every communicator that was split from the first.
class Ground {
 public:
  Ground(int rank, std::filesystem::path directory)
      : rank_(rank), directory_(std::move(directory)), store_(directory_ / "store", nonce, rank) {}
  ~Ground() {
    std::error_code ignored;
    if (rank_ == 0) std::filesystem::remove_all(directory_, ignored);
  }
  control::ControlPage& stand_on(control::ControlPage page) {
    const std::lock_guard lock(mutex_);
    page_.emplace(std::move(page));
    if (is_aborted_) raise();
    return *page_;
  }
  void abort() {
    const std::lock_guard lock(mutex_);
    is_aborted_ = true;
    if (page_) raise();
  }
  bool is_aborted() const { return is_aborted_; }
  int rank() const { return rank_; }
  const std::filesystem::path& directory() const { return directory_; }
  rendezvous::FileStore& store() { return store_; }

 private:
  void raise() {
    page_->raise_abort(only_epoch, {.culprit = rank_, .reason = control::AbortReason::error, .text = "aborted"});
  }

  int rank_;
  std::filesystem::path directory_;
  rendezvous::FileStore store_;
  std::mutex mutex_;
  std::optional<control::ControlPage> page_;
  std::atomic<bool> is_aborted_ = false;
};

class Comm : public std::enable_shared_from_this<Comm> {
 public:
  explicit Comm(std::shared_ptr<Ground> ground) : ground_(std::move(ground)) {}

  Status state() const { return state_; }
  int size() const { return group_ ? group_->size() : 0; }

  // A slow task runs in its own thread. Until it ends, the communicator takes no other call.
  void begin(std::function<void(Comm&)> task) {
    state_ = in_progress;
    std::thread([self = shared_from_this(), task = std::move(task)] {
      try {
        task(*self);
        Status busy = in_progress;
        self->state_.compare_exchange_strong(busy, 0);
      } catch (const std::exception&) {
        self->fail();
      }
    }).detach();
  }

  void join(int size) {
    const std::filesystem::path file = ground_->directory() / "control";
    if (ground_->rank() == 0) {
      control::ControlPage::create(file, size, nonce);
      ground_->store().put("page", "made");
    }
    while (!ground_->store().get("page")) {
      if (ground_->is_aborted()) throw std::runtime_error("aborted");
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
    group_ = fabric::make_shm_world({.control = &ground_->stand_on(control::ControlPage::open(file, nonce)),
                                     .store = &ground_->store(),
                                     .directory = ground_->directory(),
                                     .epoch = [] { return only_epoch; },
                                     .timeout = for_ever,
                                     .rank = ground_->rank(),
                                     .detect_deadlock = false});
  }

  /// In the order in which the host asked.
  void in_turn(std::uint64_t ticket, const std::function<void(Group&)>& call) {
    {
      std::unique_lock lock(mutex_);
      turn_.wait(lock, [&] { return served_ == ticket || ground_->is_aborted(); });
    }
    try {
      if (!ground_->is_aborted()) call(*group_);
    } catch (const Mismatch&) {
      std::unique_lock lock(mutex_);
      turn_.wait(lock, [&] { return ground_->is_aborted(); });  // forever, as far as NCCL is concerned
    } catch (const std::exception&) {
      fail();
    }
    {
      const std::lock_guard lock(mutex_);
      ++served_;
    }
    turn_.notify_all();
  }
  std::uint64_t ticket() { return issued_++; }

  void issue(StreamHandle stream, Call call) {
    const Launch launched(stream, Launch::By::a_thread_of_the_library);
    enqueue(stream, [self = shared_from_this(), call, ticket = ticket(), launched](Nanoseconds& end,
                                                                                   Nanoseconds issued) mutable {
      self->in_turn(ticket, [&](Group& group) {
        call.descriptor.ready_ns = std::max(end, issued);
        end = group.run(call).latest_ready_ns;
        launched.ran(call.descriptor.ready_ns, end);
      });
    });
  }

  void finalize() {
    begin([](Comm& self) {
      std::unique_lock lock(self.mutex_);
      self.turn_.wait(lock, [&] { return self.served_ >= self.issued_ || self.ground_->is_aborted(); });
    });
  }

  void abort() {
    {
      const std::lock_guard lock(mutex_);
      ground_->abort();
    }
    turn_.notify_all();
  }

  NcclOp make_op(double factor) {
    const int op = first_own_op + static_cast<int>(factors_.size());
    factors_[op] = factor;
    return static_cast<NcclOp>(op);
  }

  bool set_op(Descriptor& descriptor, NcclOp op) const {
    switch (op) {
      case NcclOp::sum: descriptor.op = ReduceOp::sum; return true;
      case NcclOp::max: descriptor.op = ReduceOp::max; return true;
      case NcclOp::min: descriptor.op = ReduceOp::min; return true;
      case NcclOp::avg: descriptor.op = ReduceOp::avg; return true;
    }
    const auto own = factors_.find(static_cast<int>(op));
    if (own == factors_.end()) return false;
    descriptor.op = ReduceOp::premul_sum;
    descriptor.factor = own->second;
    return true;
  }

 private:
  static constexpr int first_own_op = 5;

  void fail() { state_ = remote_error; }

  std::shared_ptr<Ground> ground_;
  std::shared_ptr<Group> group_;
  std::atomic<Status> state_ = 0;
  std::atomic<std::uint64_t> issued_ = 0;
  std::uint64_t served_ = 0;
  std::mutex mutex_;
  std::condition_variable turn_;
  std::map<int, double> factors_;
};

struct Handle {
  std::shared_ptr<Comm> comm;
};

Comm& comm_of(CommHandle handle) { return *static_cast<Handle*>(handle)->comm; }

DType dtype_of(NcclType type) {
  switch (type) {
    case NcclType::i8: return DType::i8;
    case NcclType::u8: return DType::u8;
    case NcclType::i32: return DType::i32;
    case NcclType::i64: return DType::i64;
    case NcclType::f16: return DType::f16;
    case NcclType::f32: return DType::f32;
    case NcclType::f64: return DType::f64;
    case NcclType::bf16: return DType::bf16;
  }
  return DType::u8;
}

Call call_of(CollectiveKind kind, NcclType type, std::size_t count, const void* in, std::size_t in_count, void* out,
             std::size_t out_count) {
  Call call;
  call.descriptor.kind = kind;
  call.descriptor.dtype = dtype_of(type);
  call.descriptor.count = count;
  const std::size_t element = size_of(call.descriptor.dtype);
  call.in = {static_cast<const std::byte*>(in), in_count * element};
  call.out = {static_cast<std::byte*>(out), out_count * element};
  return call;
}

// A send or a receive within one group of calls.
struct Transfer {
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;
  NcclType type = NcclType::u8;
  int peer = 0;
  CommHandle comm = nullptr;
  StreamHandle stream = nullptr;
};
thread_local int group_depth = 0;
thread_local std::vector<Transfer> sends, receives;

// Exchanges data of every rank with every rank, or nothing that is known here.
Status exchange(std::vector<Transfer> sent, std::vector<Transfer> received) {
  if (sent.empty() && received.empty()) return 0;
  Comm& comm = comm_of(sent.empty() ? received[0].comm : sent[0].comm);
  const auto ranks = static_cast<std::size_t>(comm.size());
  if (sent.size() != ranks || received.size() != ranks) return invalid_usage;
  const std::size_t part = sent[0].count * size_of(dtype_of(sent[0].type));
  const auto from = std::make_shared<std::vector<std::byte>>(ranks * part);
  const auto to = std::make_shared<std::vector<std::byte>>(ranks * part);
  const StreamHandle stream = sent[0].stream;
  enqueue(stream, [=](Nanoseconds&, Nanoseconds) {
    for (const Transfer& one : sent)
      std::memcpy(from->data() + static_cast<std::size_t>(one.peer) * part, one.in, part);
  });
  comm.issue(stream, call_of(CollectiveKind::all_to_all, sent[0].type, ranks * sent[0].count, from->data(),
                             ranks * sent[0].count, to->data(), ranks * sent[0].count));
  enqueue(stream, [=](Nanoseconds&, Nanoseconds) {  // which keeps both alive
    static_cast<void>(from);
    for (const Transfer& one : received)
      std::memcpy(one.out, to->data() + static_cast<std::size_t>(one.peer) * part, part);
  });
  return 0;
}

Status version(int* number) {
  *number = 22809;
  return 0;
}

Status get_unique_id(UniqueId* id) {
  const auto root =
      std::filesystem::exists("/dev/shm") ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path();
  std::string path = root / "shardproof-cpu-nccl-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) return system_error;
  *id = {};
  std::snprintf(id->bytes, sizeof id->bytes, "%s", path.c_str());
  return 0;
}

Status comm_init_rank(CommHandle* comm, int size, const UniqueId* id, int rank, const char*) {
  auto made = std::make_shared<Comm>(std::make_shared<Ground>(rank, id->bytes));
  made->begin([size](Comm& self) { self.join(size); });
  *comm = new Handle{std::move(made)};
  return in_progress;
}

Status comm_get_async_error(CommHandle comm, Status* state) {
  *state = comm_of(comm).state();
  return 0;
}

Status comm_finalize(CommHandle comm) {
  comm_of(comm).finalize();
  return in_progress;
}

// The communicator is finalized: only the end of the thread that finalized it is still pending.
Status comm_destroy(CommHandle comm) {
  const std::unique_ptr<Handle> gone(static_cast<Handle*>(comm));
  while (gone->comm.use_count() > 1) std::this_thread::yield();
  return 0;
}

Status comm_abort(CommHandle comm) {
  const std::unique_ptr<Handle> gone(static_cast<Handle*>(comm));
  gone->comm->abort();
  return 0;
}

Status group_start() {
  ++group_depth;
  return 0;
}

Status group_end() {
  if (group_depth == 0) return invalid_usage;
  if (--group_depth > 0) return 0;
  return exchange(std::exchange(sends, {}), std::exchange(receives, {}));
}

Status red_op_create_premul_sum(NcclOp* op, double factor, NcclType, CommHandle comm) {
  *op = comm_of(comm).make_op(factor);
  return 0;
}

Status red_op_destroy(NcclOp, CommHandle) { return 0; }

Status all_gather(const void* in, void* out, std::size_t count, NcclType type, CommHandle comm, StreamHandle stream) {
  const auto ranks = static_cast<std::size_t>(comm_of(comm).size());
  comm_of(comm).issue(stream, call_of(CollectiveKind::all_gather, type, count, in, count, out, ranks * count));
  return 0;
}

Status reduce_scatter(const void* in, void* out, std::size_t count, NcclType type, NcclOp op, CommHandle comm,
                      StreamHandle stream) {
  const std::size_t whole = static_cast<std::size_t>(comm_of(comm).size()) * count;
  Call call = call_of(CollectiveKind::reduce_scatter, type, whole, in, whole, out, count);
  if (!comm_of(comm).set_op(call.descriptor, op)) return invalid_argument;
  comm_of(comm).issue(stream, call);
  return 0;
}

Status all_reduce(const void* in, void* out, std::size_t count, NcclType type, NcclOp op, CommHandle comm,
                  StreamHandle stream) {
  Call call = call_of(CollectiveKind::all_reduce, type, count, in, count, out, count);
  if (!comm_of(comm).set_op(call.descriptor, op)) return invalid_argument;
  comm_of(comm).issue(stream, call);
  return 0;
}

Status broadcast(const void* in, void* out, std::size_t count, NcclType type, int root, CommHandle comm,
                 StreamHandle stream) {
  Call call = call_of(CollectiveKind::broadcast, type, count, in, count, out, count);
  call.descriptor.root = root;
  comm_of(comm).issue(stream, call);
  return 0;
}

Status send(const void* in, std::size_t count, NcclType type, int peer, CommHandle comm, StreamHandle stream) {
  if (group_depth == 0) return invalid_usage;
  sends.push_back({.in = in, .count = count, .type = type, .peer = peer, .comm = comm, .stream = stream});
  return 0;
}

Status recv(void* out, std::size_t count, NcclType type, int peer, CommHandle comm, StreamHandle stream) {
  if (group_depth == 0) return invalid_usage;
  receives.push_back({.out = out, .count = count, .type = type, .peer = peer, .comm = comm, .stream = stream});
  return 0;
}

const char* error_text(Status status) {
  switch (status) {
    case 0: return "no error";
    case system_error: return "unhandled system error";
    case invalid_argument: return "invalid argument";
    case invalid_usage: return "invalid usage";
    case remote_error: return "remote process exited or there was a network error";
    case in_progress: return "NCCL operation in progress";
    default: return "an error that was planted";
  }
}

const char* last_error(CommHandle) { return "the fabric beneath says nothing"; }

}  // namespace

const NcclTable& nccl() {
  static const NcclTable table{.in_progress = in_progress,
                               .remote_error = remote_error,
                               .version = version,
                               .get_unique_id = get_unique_id,
                               .comm_init_rank = comm_init_rank,
                               .comm_get_async_error = comm_get_async_error,
                               .comm_finalize = comm_finalize,
                               .comm_destroy = comm_destroy,
                               .comm_abort = comm_abort,
                               .group_start = group_start,
                               .group_end = group_end,
                               .red_op_create_premul_sum = red_op_create_premul_sum,
                               .red_op_destroy = red_op_destroy,
                               .all_gather = all_gather,
                               .reduce_scatter = reduce_scatter,
                               .all_reduce = all_reduce,
                               .broadcast = broadcast,
                               .send = send,
                               .recv = recv,
                               .error_text = error_text,
                               .last_error = last_error};
  return table;
}

}  // namespace shardproof::device::cuda::cpu

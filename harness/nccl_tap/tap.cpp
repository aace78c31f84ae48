#include "harness/nccl_tap/tap.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <thread>

#include "harness/nccl_tap/nccl_library.hpp"
#include "harness/nccl_tap/stream_stall.hpp"
#include "harness/protocol/environment.hpp"

namespace shardproof::nccl_tap {

using protocol::CallFault;
using protocol::CallKind;
using protocol::Communicator;
using protocol::Fate;
using protocol::Result;

static_assert(static_cast<int>(protocol::ElementType::bf16) == ncclBfloat16 &&
              static_cast<int>(protocol::ElementType::u64) == ncclUint64);
static_assert(static_cast<int>(protocol::Reduction::avg) == ncclAvg &&
              static_cast<int>(protocol::Reduction::first_made) == ncclNumOps);
static_assert(static_cast<int>(Result::remote_error) == ncclRemoteError &&
              static_cast<int>(Result::in_progress) == ncclInProgress);

namespace {

// The tap is loaded into any program, so it has no other place for its state than these globals. Its state is never
// destroyed, because engines call NCCL from threads that outlive main.
struct ThreadState {
  int nccl_scopes = 0;
  std::uint32_t group_depth = 0;
  std::uint32_t thread = 0;
};
thread_local ThreadState of_thread;

std::atomic<Tap*> of_process = nullptr;

std::mutex& start_mutex() {
  static std::mutex mutex;
  return mutex;
}

std::uint32_t this_thread() {
  if (of_thread.thread == 0) of_thread.thread = static_cast<std::uint32_t>(::gettid());
  return of_thread.thread;
}

std::int64_t now_ns() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

bool has_failed(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

void say(const char* what, const char* why) {
  std::fprintf(stderr, "shardproof: %s: %s; the tap records no NCCL calls and applies no faults\n", what, why);
}

std::optional<int> rank_of_process() {
  try {
    const std::optional<protocol::Identity> identity = protocol::identity(protocol::own_variable);
    if (identity) return identity->rank;
  } catch (const std::exception&) {
    return std::nullopt;  // the environment holds no valid rank; the record goes without one
  }
  return std::nullopt;
}

}  // namespace

// -- The tap of this process ------------------------------------------------------------------------------------------

Tap* Tap::active() {
  if (of_thread.nccl_scopes > 0) return nullptr;
  Tap* tap = of_process.load(std::memory_order_acquire);
  if (tap == nullptr) tap = start();
  return tap != nullptr && tap->writer_ ? tap : nullptr;
}

Tap* Tap::start() {
  try {
    const std::scoped_lock lock(start_mutex());
    if (Tap* const started = of_process.load(std::memory_order_acquire)) return started;
    // A child begins a record of its own with its first call. It abandons the parent's tap, whose mutex a thread of the
    // parent may have held.
    static const int is_registered = ::pthread_atfork([] { start_mutex().lock(); }, [] { start_mutex().unlock(); },
                                                      [] {
                                                        of_process.store(nullptr, std::memory_order_release);
                                                        of_thread = ThreadState{};
                                                        start_mutex().unlock();
                                                      });
    if (is_registered != 0) say("following forks", "there is no memory");
    Tap* const tap = new Tap;
    of_process.store(tap, std::memory_order_release);
    return tap;
  } catch (...) {
    return nullptr;
  }
}

Tap::Tap() {
  try {
    open_record();
  } catch (const std::exception& error) {
    writer_.reset();
    say("recording NCCL calls", error.what());
  }
}

void Tap::open_record() {
  const char* const place = std::getenv(protocol::environment::nccl_tap);
  const char* const faults = std::getenv(protocol::environment::nccl_faults);
  if (place == nullptr || *place == '\0') {
    if (faults != nullptr && *faults != '\0')
      say(protocol::environment::nccl_faults, "faults need a record; set SHARDPROOF_NCCL_TAP as well");
    return;
  }
  process_ = {
      .pid = ::getpid(), .rank = rank_of_process(), .started_ns = now_ns(), .faults = faults == nullptr ? "" : faults};
  try {
    faults_ = protocol::parse_faults(process_.faults);
  } catch (const std::exception& error) {
    say(protocol::environment::nccl_faults, error.what());
    return;
  }
  writer_.emplace(place, process_);
  if (const NcclLibrary* const library = nccl_library())
    writer_->write(protocol::TapLibrary{.version = library->version, .path = library->path});
}

Tap::NcclScope::NcclScope() { ++of_thread.nccl_scopes; }
Tap::NcclScope::~NcclScope() { --of_thread.nccl_scopes; }

// -- A call -----------------------------------------------------------------------------------------------------------

Tap::Begun Tap::begin(const Asked& asked, const Making* making) noexcept {
  Begun begun;
  begun.comm = asked.comm;
  try {
    protocol::Call& call = begun.call;
    call.kind = asked.kind;
    call.count = asked.count;
    call.dtype = asked.dtype;
    call.op = asked.op;
    call.root = asked.root;
    call.factor = asked.factor;
    call.entered_ns = now_ns();
    call.thread = this_thread();
    call.group_depth = of_thread.group_depth;
    {
      const std::scoped_lock lock(mutex_);
      const Communicator* const communicator = communicators_.at(address_of(asked.comm));
      if (communicator != nullptr) {
        call.comm = communicator->id;
        if (!communicator->origin) writer_->write(*communicator);
      }
      if (asked.stream) {
        call.stream = address_of(*asked.stream);
        call.stream_index = stream_index(*asked.stream);
      }
      if (asked.op >= protocol::Reduction::first_made) {
        const auto factor = factors_.find({asked.comm, static_cast<int>(asked.op)});
        call.factor = factor == factors_.end() ? std::numeric_limits<double>::quiet_NaN() : factor->second;
      }
      decide_fate(begun, asked, communicator);
      const bool is_passed = begun.fate == Fate::untouched;
      if (making != nullptr) make_communicators(begun, *making);
      if (is_passed && protocol::moves_data(asked.kind))
        call.place = communicators_.next_place(call.comm, asked.kind, asked.root);
      if (is_passed && communicator != nullptr &&
          (asked.kind == CallKind::comm_destroy || asked.kind == CallKind::comm_abort)) {
        drop_pending(call.comm);
        communicators_.end(call.comm);
        writer_->write(communicators_[call.comm]);
      }
      writer_->enter(call);
      begun.is_recorded = true;
    }
    if (call.delay_ns != 0) std::this_thread::sleep_for(std::chrono::nanoseconds(call.delay_ns));
    if (begun.stall.count() != 0 && asked.stream && stall_stream(*asked.stream, begun.stall)) {
      call.stall_ns = begun.stall.count();
      const std::scoped_lock lock(mutex_);
      writer_->update(call);  // the call itself may never return
    }
  } catch (...) {
    begun.fate = Fate::untouched;  // memory is missing: the call matters more than its record
  }
  return begun;
}

void Tap::decide_fate(Begun& begun, const Asked& asked, const Communicator* communicator) {
  protocol::Call& call = begun.call;
  call.of_kind = of_kind_[static_cast<std::size_t>(asked.kind)]++;
  protocol::CallPlace place{.kind = asked.kind,
                            .of_kind = call.of_kind,
                            .of_kind_on_comm = communicators_.next_of_kind(call.comm, asked.kind),
                            .comm = call.comm,
                            .rank = process_.rank};
  if (!place.rank && communicator != nullptr && communicator->rank >= 0) place.rank = communicator->rank;
  const protocol::FaultDecision decision = protocol::decide(faults_, place);
  call.delay_ns = decision.delay.count();
  begun.stall = decision.stall;
  if (decision.fault == nullptr) return;
  switch (decision.fault->action) {
    case CallFault::Action::delay:
    case CallFault::Action::stall: break;
    case CallFault::Action::drop: begun.fate = Fate::dropped; break;
    case CallFault::Action::fail:
      begun.fate = Fate::failed;
      begun.status = static_cast<ncclResult_t>(decision.fault->status);
      break;
    case CallFault::Action::swap:
      // A call after a held call is passed on. Otherwise NCCL would get neither of them.
      if (!is_held(asked.comm)) begun.fate = Fate::held;
      break;
  }
  call.fate = begun.fate;
}

void Tap::finish(Begun& begun, ncclResult_t result) noexcept {
  if (begun.call.kind == CallKind::group_start && result == ncclSuccess) ++of_thread.group_depth;
  const bool ends_group = begun.call.kind == CallKind::group_end || begun.call.kind == CallKind::group_simulate_end;
  if (ends_group && of_thread.group_depth > 0) --of_thread.group_depth;
  if (!begun.is_recorded) return;
  try {
    begun.call.left_ns = now_ns();
    begun.call.result = static_cast<Result>(result);
    const std::scoped_lock lock(mutex_);
    writer_->update(begun.call);
    if (begun.made != 0) finish_making(begun, result);
    if (ends_group && of_thread.group_depth == 0) end_group(result);
    if (protocol::moves_data(begun.call.kind) && begun.call.comm >= 0 && result == ncclSuccess &&
        of_thread.group_depth == 0) {
      Communicator& communicator = communicators_[begun.call.comm];
      if (!communicator.origin && communicator.size < 0) learn_size(communicator, begun.comm);
    }
  } catch (...) {
    return;  // memory is missing for the follow-up; the call itself has been made
  }
}

int Tap::stream_index(cudaStream_t stream) {
  return streams_.insert({stream, static_cast<int>(streams_.size())}).first->second;
}

// -- Calls that are held back -----------------------------------------------------------------------------------------

bool Tap::is_held(ncclComm_t comm) const {
  return std::ranges::any_of(held_, [comm](const Held& held) { return held.begun.comm == comm; });
}

bool Tap::hold(Begun& begun, std::function<ncclResult_t()> issue) noexcept {
  try {
    const std::scoped_lock lock(mutex_);
    Held& held = held_.emplace_back(begun, std::move(issue));
    held.begun.call.left_ns = now_ns();
    writer_->update(held.begun.call);
    holds_.store(static_cast<int>(held_.size()), std::memory_order_release);
    return true;
  } catch (...) {
    begun.fate = begun.call.fate = Fate::untouched;
    return false;
  }
}

template <class Chosen>
ncclResult_t Tap::issue_held(Chosen chosen) noexcept {
  ncclResult_t result = ncclSuccess;
  try {
    std::vector<Held> now;
    {
      const std::scoped_lock lock(mutex_);
      for (auto held = held_.begin(); held != held_.end();) {
        if (!chosen(*held)) {
          ++held;
          continue;
        }
        held->begun.call.place =
            communicators_.next_place(held->begun.call.comm, held->begun.call.kind, held->begun.call.root);
        now.push_back(std::move(*held));
        held = held_.erase(held);
      }
      holds_.store(static_cast<int>(held_.size()), std::memory_order_release);
    }
    for (Held& held : now) {
      const ncclResult_t own = within_nccl(held.issue);
      held.begun.call.fate = Fate::swapped;
      held.begun.call.result = static_cast<Result>(own);
      result = worse(result, own);
      const std::scoped_lock lock(mutex_);
      writer_->update(held.begun.call);
    }
  } catch (...) {
    result = worse(result, ncclSystemError);
  }
  return result;
}

ncclResult_t Tap::issue_held_before(const Asked& asked) noexcept {
  if (asked.kind == CallKind::group_end || asked.kind == CallKind::group_simulate_end) {
    return issue_held([thread = this_thread()](const Held& held) {
      return held.begun.call.thread == thread && held.begun.call.group_depth > 0;
    });
  }
  if (protocol::moves_data(asked.kind) || asked.comm == nullptr) return ncclSuccess;
  return issue_held([comm = asked.comm](const Held& held) { return held.begun.comm == comm; });
}

ncclResult_t Tap::issue_held_after(ncclComm_t comm) noexcept {
  return issue_held([comm](const Held& held) { return held.begun.comm == comm; });
}

// -- Communicators ----------------------------------------------------------------------------------------------------

void Tap::make_communicators(Begun& begun, const Making& making) {
  begun.where = making.where;
  begun.made = making.made;
  const bool is_part = begun.call.kind == CallKind::comm_split || begun.call.kind == CallKind::comm_shrink;
  const int parent = is_part ? begun.call.comm : -1;
  // Count the part also where this rank does not belong to it, because the other ranks count it.
  const std::uint64_t key_of_part = is_part ? communicators_.key_of_part(parent, begun.call.root) : 0;
  for (int index = 0; index < making.made; ++index) {
    Communicator& made = communicators_.create(begun.call.kind);
    if (index == 0) begun.call.made = made.id;
    made.size = making.size;
    made.rank = begun.call.kind == CallKind::comm_init_all ? index : making.rank;
    made.parent = parent;
    made.key = is_part ? key_of_part : making.key;
    if (begun.call.kind == CallKind::comm_init_all) {
      const std::array<std::int64_t, 3> own = {process_.pid, process_.started_ns,
                                               static_cast<std::int64_t>(begun.call.of_kind)};
      made.key = key_of_unique_id({reinterpret_cast<const char*>(own.data()), sizeof own});
    }
    const ncclConfig_t* const config = making.config;
    const bool has_name =
        config != nullptr && config->size >= offsetof(ncclConfig_t, commName) + sizeof config->commName;
    if (has_name && config->commName != nullptr) made.name = config->commName;
    writer_->write(made);
  }
}

void Tap::finish_making(const Begun& begun, ncclResult_t result) {
  for (int index = 0; index < begun.made; ++index) {
    const PendingCommunicator pending{.id = begun.call.made + index,
                                      .where = begun.where == nullptr ? nullptr : begun.where + index,
                                      .group_of = of_thread.group_depth > 0 ? this_thread() : 0};
    if (has_failed(result) || pending.where == nullptr) {
      fail(pending.id);
    } else if (pending.group_of == 0 && result == ncclSuccess) {
      arrive(pending, *pending.where);
    } else {
      // NCCL makes it in the background. Its address is bound already, because the engine polls its state.
      if (pending.group_of == 0 && *pending.where != nullptr)
        communicators_.bind(pending.id, address_of(*pending.where));
      pending_.push_back(pending);
    }
  }
  pending_count_.store(static_cast<int>(pending_.size()), std::memory_order_release);
}

void Tap::end_group(ncclResult_t result) {
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    if (pending->group_of != this_thread()) {
      ++pending;
      continue;
    }
    if (result == ncclInProgress) {
      pending->group_of = 0;
      if (*pending->where != nullptr) communicators_.bind(pending->id, address_of(*pending->where));
      ++pending;
      continue;
    }
    if (result == ncclSuccess) {
      arrive(*pending, *pending->where);
    } else {
      fail(pending->id);
    }
    pending = pending_.erase(pending);
  }
  pending_count_.store(static_cast<int>(pending_.size()), std::memory_order_release);
}

// Forgets the communicators that were still to come from a communicator that ends. NCCL no longer writes their
// addresses, and the memory for these addresses may go, too.
void Tap::drop_pending(int id) {
  std::erase_if(pending_, [&](const PendingCommunicator& pending) {
    const bool is_concerned = pending.id == id || communicators_[pending.id].parent == id;
    if (is_concerned && pending.id != id) fail(pending.id);
    return is_concerned;
  });
  pending_count_.store(static_cast<int>(pending_.size()), std::memory_order_release);
}

void Tap::arrive(const PendingCommunicator& pending, ncclComm_t comm) {
  if (comm == nullptr) {
    fail(pending.id);
    return;
  }
  communicators_.bind(pending.id, address_of(comm));
  Communicator& communicator = communicators_[pending.id];
  communicator.state = Communicator::State::alive;
  learn_size(communicator, comm);
  writer_->write(communicator);
}

void Tap::learn_size(Communicator& communicator, ncclComm_t handle) {
  const NcclLibrary* const library = nccl_library();
  if (communicator.size >= 0 || library == nullptr || library->functions.CommCount == nullptr ||
      library->functions.CommUserRank == nullptr) {
    return;
  }
  int size = -1, rank = -1;
  const NcclScope scope;
  if (library->functions.CommCount(handle, &size) != ncclSuccess ||
      library->functions.CommUserRank(handle, &rank) != ncclSuccess)
    return;
  communicator.size = size;
  communicator.rank = rank;
  writer_->write(communicator);
}

void Tap::fail(int id) {
  Communicator& communicator = communicators_[id];
  communicators_.end(id);
  communicator.state = Communicator::State::failed;
  writer_->write(communicator);
}

void Tap::notice_state(ncclComm_t comm, ncclResult_t state) noexcept {
  if (state == ncclInProgress || (state == ncclSuccess && pending_count_.load(std::memory_order_acquire) == 0)) return;
  try {
    const std::scoped_lock lock(mutex_);
    const Communicator* const asked = communicators_.at(address_of(comm));
    if (asked == nullptr) return;
    const int id = asked->id;
    for (auto pending = pending_.begin(); pending != pending_.end();) {
      const Communicator& communicator = communicators_[pending->id];
      if (pending->group_of != 0 || (communicator.handle != address_of(comm) && communicator.parent != id)) {
        ++pending;
        continue;
      }
      if (state == ncclSuccess) {
        arrive(*pending, *pending->where);
      } else {
        fail(pending->id);
      }
      pending = pending_.erase(pending);
    }
    pending_count_.store(static_cast<int>(pending_.size()), std::memory_order_release);
    if (state == ncclSuccess || !reported_errors_.insert(id).second) return;
    protocol::Call call;
    call.kind = CallKind::comm_get_async_error;
    call.of_kind = of_kind_[static_cast<std::size_t>(call.kind)]++;
    call.comm = id;
    call.thread = this_thread();
    call.group_depth = of_thread.group_depth;
    call.entered_ns = call.left_ns = now_ns();
    call.result = static_cast<Result>(state);
    writer_->enter(call);
  } catch (...) {
    return;  // memory is missing for the record; the engine has its answer
  }
}

void Tap::notice_operation(ncclComm_t comm, ncclRedOp_t op, std::optional<double> factor) noexcept {
  try {
    const std::scoped_lock lock(mutex_);
    if (factor) {
      factors_[{comm, static_cast<int>(op)}] = *factor;
    } else {
      factors_.erase({comm, static_cast<int>(op)});
    }
  } catch (...) {
    return;  // later calls with this operation are recorded with an unknown factor
  }
}

}  // namespace shardproof::nccl_tap

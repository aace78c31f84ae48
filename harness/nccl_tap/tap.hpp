// Tap records the NCCL calls of this process and applies faults to them. It sits between the engine that makes a call
// and the NCCL that receives it. One mutex guards all of its state; it is not held while a call is under way or a fault
// waits. A failure of the tap does not reach the engine: a call that cannot be recorded is passed on all the same.
// There is one exception. When calls that a fault held back cannot be issued for lack of memory, the engine gets
// ncclSystemError.
//
// The room `nccl_tap` has the library between an engine and its NCCL. Its record is a document of `protocol`, and
// analyses of the record are in `trace`; neither may enter.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "harness/nccl_tap/communicators.hpp"
#include "harness/nccl_tap/functions.hpp"
#include "harness/protocol/nccl_faults.hpp"
#include "harness/protocol/nccl_record.hpp"

namespace shardproof::nccl_tap {

/// The arguments of the engine's call. The tap finds out the communicator's id, the stream's index and the place
/// itself.
struct Asked {
  protocol::CallKind kind = protocol::CallKind::all_gather;
  std::uint64_t count = 0;
  protocol::ElementType dtype = protocol::ElementType::none;
  protocol::Reduction op = protocol::Reduction::none;
  int root = -1;  ///< see Call
  double factor = 0;
  ncclComm_t comm = nullptr;
  std::optional<cudaStream_t> stream;
};

/// The communicators that a call will make.
struct Making {
  ncclComm_t* where = nullptr;
  int made = 1;  ///< number of communicators, in a row from `where`
  int size = -1, rank = -1;
  std::uint64_t key = 0;
  const ncclConfig_t* config = nullptr;
};

class Tap {
 public:
  /// The tap of this process; the first call starts it. nullptr where nothing is recorded: recording is off or
  /// impossible, or NCCL itself calls one of its functions.
  static Tap* active();

  /// Records the call. `issue` passes it on to NCCL, unless a fault prevents that. The tap may keep `issue` for later.
  template <class Issue>
  ncclResult_t call(const Asked& asked, const Making* making, Issue issue) {
    const ncclResult_t before = holds_.load(std::memory_order_acquire) == 0 ? ncclSuccess : issue_held_before(asked);
    Begun begun = begin(asked, making);
    ncclResult_t result = ncclSuccess;
    if (begun.fate == protocol::Fate::held && hold(begun, issue)) return worse(before, ncclSuccess);
    if (begun.fate == protocol::Fate::failed) result = begun.status;
    if (begun.fate == protocol::Fate::untouched) result = within_nccl(issue);
    finish(begun, result);
    const bool has_passed = begun.fate == protocol::Fate::untouched && protocol::moves_data(asked.kind);
    const ncclResult_t after =
        has_passed && holds_.load(std::memory_order_acquire) != 0 ? issue_held_after(asked.comm) : ncclSuccess;
    return worse(worse(before, result), after);
  }

  /// Call it after ncclCommGetAsyncError has returned this state of the communicator.
  void notice_state(ncclComm_t comm, ncclResult_t state) noexcept;
  /// Call it after ncclRedOpCreatePreMulSum has made an operation, or before ncclRedOpDestroy ends one (no factor).
  void notice_operation(ncclComm_t comm, ncclRedOp_t op, std::optional<double> factor) noexcept;

 private:
  struct Begun {
    protocol::Call call;
    bool is_recorded = false;
    protocol::Fate fate = protocol::Fate::untouched;
    ncclResult_t status = ncclSuccess;  ///< of a call that will fail
    std::chrono::nanoseconds stall{0};  ///< sleep that goes onto the stream before the call
    ncclComm_t comm = nullptr;
    ncclComm_t* where = nullptr;
    int made = 0;
  };
  struct Held {
    Begun begun;
    std::function<ncclResult_t()> issue;
  };
  /// A communicator that may not exist yet although the call that makes it has returned.
  struct PendingCommunicator {
    int id = 0;
    ncclComm_t* where = nullptr;
    std::uint32_t group_of = 0;  ///< thread whose group makes it; 0: NCCL makes it in the background
  };

  Tap();
  static Tap* start();
  void open_record();

  template <class Issue>
  static ncclResult_t within_nccl(const Issue& issue) {
    const NcclScope scope;
    return issue();
  }
  /// While it lives, the calls of this thread are NCCL's own.
  class NcclScope {
   public:
    NcclScope();
    NcclScope(const NcclScope&) = delete;
    NcclScope& operator=(const NcclScope&) = delete;
    ~NcclScope();
  };

  static ncclResult_t worse(ncclResult_t first, ncclResult_t second) { return first != ncclSuccess ? first : second; }

  Begun begin(const Asked& asked, const Making* making) noexcept;
  void finish(Begun& begun, ncclResult_t result) noexcept;
  /// Returns false where memory is missing; then the call is passed on.
  bool hold(Begun& begun, std::function<ncclResult_t()> issue) noexcept;
  /// These issue calls that were held back and cannot wait longer. Either their group ends, or something else happens
  /// to their communicator.
  ncclResult_t issue_held_before(const Asked& asked) noexcept;
  ncclResult_t issue_held_after(ncclComm_t comm) noexcept;
  template <class Chosen>
  ncclResult_t issue_held(Chosen chosen) noexcept;

  // The caller of these holds the mutex:
  void decide_fate(Begun& begun, const Asked& asked, const protocol::Communicator* communicator);
  void make_communicators(Begun& begun, const Making& making);
  void finish_making(const Begun& begun, ncclResult_t result);
  void end_group(ncclResult_t result);
  void arrive(const PendingCommunicator& pending, ncclComm_t comm);
  void learn_size(protocol::Communicator& communicator, ncclComm_t handle);
  void fail(int id);
  void drop_pending(int id);
  int stream_index(cudaStream_t stream);
  bool is_held(ncclComm_t comm) const;

  protocol::TapProcess process_;
  std::vector<protocol::CallFault> faults_;
  std::optional<protocol::TapWriter> writer_;
  std::atomic<int> holds_ = 0;

  std::mutex mutex_;
  Communicators communicators_;
  std::array<std::uint64_t, static_cast<std::size_t>(protocol::last_call_kind) + 1> of_kind_{};
  std::map<cudaStream_t, int> streams_;
  std::map<std::pair<ncclComm_t, int>, double> factors_;
  std::vector<Held> held_;
  std::vector<PendingCommunicator> pending_;
  std::atomic<int> pending_count_ = 0;  ///< size of `pending_`, for reads without the mutex
  std::set<int> reported_errors_;  ///< communicators whose asynchronous error is in the record
};

}  // namespace shardproof::nccl_tap

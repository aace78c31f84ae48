// Owns a rank's GPU for the life of its world: its streams and events, the wait loop, and the abort flag that ends
// stuck work. Each scenario makes a new device (cuda_device.hpp); the Gpu stays.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/device/cuda/activity_log.hpp"
#include "harness/device/cuda/vendor.hpp"
#include "harness/protocol/collective.hpp"
#include "harness/protocol/flight_record.hpp"

namespace shardproof::control {
class FlightRing;
}

namespace shardproof::device {}

namespace shardproof::device::cuda {

class CudaKernels;
class NcclComm;
class Staging;

/// A group that a rank belongs to, as its flight record names it.
struct JoinedGroup {
  protocol::FlightGroup known;  ///< Its id is the same on all members.
  std::size_t place = 0;  ///< In the flight record, until another group has taken the place.
};

/// A collective that a rank has issued.
struct IssuedCall {
  std::shared_ptr<JoinedGroup> group;
  Descriptor call;
};

/// The context that a Gpu needs from its rank and the world.
struct GpuContext {
  int rank = 0;
  int ordinal = 0;  ///< The GPU's number among the GPUs that this process sees.
  /// Throws the error that ends the running case for every rank, if there is such an error.
  std::function<void()> check;
  std::function<control::Deadline(control::Deadline now)>
      give_up_at;  ///< Returns the time when a wait that begins now gives up.
  std::chrono::milliseconds for_abort{5'000};  ///< How long communicators and work may take to end after an abort.
  control::FlightRing* flight = nullptr;  ///< Where the rank records what it does; nullptr: nowhere.
  std::function<std::uint32_t()> epoch;  ///< The running case's epoch, for the flight record.
  bool keeps_records = false;  ///< CUPTI records what runs, and when.
};

/// Thrown if work, or an abort, has not ended after the abort flag was set. This process can do nothing more on this
/// GPU.
class GpuLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Gpu {
 public:
  /// Throws VendorError. Throws std::runtime_error if there is no GPU with that ordinal, or if it should keep records
  /// and there is no CUPTI.
  Gpu(const VendorTables& vendor, GpuContext context);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const VendorTables& vendor() const { return vendor_; }
  const CudaTable& cuda() const { return *vendor_.cuda; }
  const NcclTable& nccl() const { return *vendor_.nccl; }
  int rank() const { return context_.rank; }
  const GpuProperties& properties() const { return properties_; }
  const std::string& name() const { return name_; }  ///< `GPU 0 (NVIDIA H200)`
  const CudaKernels& kernels() const { return *kernels_; }
  /// nullptr: CUPTI records nothing.
  ActivityLog* activity() const { return activity_.get(); }

  /// Throws VendorError if the status is not success, with everything that is known about the call.
  void check(Status status, std::string_view operation, StreamHandle stream = nullptr,
             std::source_location location = std::source_location::current()) const;
  [[noreturn]] void fail_nccl(Status status, std::string_view operation, std::string_view in_words,
                              StreamHandle stream = nullptr,
                              std::source_location location = std::source_location::current()) const;

  StreamHandle create_stream(const std::string& name);
  void destroy_stream(StreamHandle stream) noexcept;
  /// Reuses an event that was given back, or makes a new one.
  EventHandle take_event();
  void give_back(EventHandle event) noexcept;
  EventHandle record(StreamHandle stream);
  /// Puts a small marker on the stream, which CUPTI records under this id.
  void emit_marker(StreamHandle stream, std::uint64_t id);

  /// The wait loop, which every wait on this GPU uses. Returns when `is_ready` holds and no communicator has failed.
  /// (After a failure, unfinished work may end and look ready, because an abort ends it.) Throws
  /// - what GpuContext::check throws;
  /// - Mismatch, and the error of a communicator;
  /// - what `is_ready` throws;
  /// - DeadlineExceeded. Its text is `late()` and the ranks that are behind.
  ///
  /// In all these cases it first ends the work in flight on this GPU (`abandon`). After a successful wait, it throws
  /// std::out_of_range if a kernel has found an index out of range.
  void await(const std::function<bool()>& is_ready, const std::function<std::string()>& late);
  /// Waits until the event has happened.
  void await(EventHandle event, const std::function<std::string()>& late);
  /// For a caller that is unwinding from an exception, and must not wait long for other ranks: they may wait for this
  /// rank. Returns whether `is_ready` holds within a second. Throws nothing. Also returns false if the case is over.
  bool ends_soon(const std::function<bool()>& is_ready) noexcept;
  /// Waits until the stream has finished everything that it has been given.
  void run_through(StreamHandle stream, std::string_view what);
  /// Throws GpuLost.
  void require_usable() const;

  /// Sets the function that returns the first collective that has not ended, if any. The code that issues collectives
  /// sets it. The wait loop calls it when a wait takes long. nullptr: no code issues collectives.
  void set_first_open_call(std::function<std::optional<IssuedCall>()> first_open_call) {
    first_open_call_ = std::move(first_open_call);
  }
  /// These write to the flight record: the rank belongs to a group, and it has issued one of the group's collectives.
  std::shared_ptr<JoinedGroup> joined(protocol::FlightGroup group) const;
  void issued(const IssuedCall& call) const;

  /// Ends the work in flight. Kernels that spin or wait at a gate exit, all communicators are aborted together, and the
  /// streams run empty. If that takes too long, the GPU is lost.
  void abandon() noexcept;
  bool is_lost() const { return is_lost_; }
  /// Remembers an error that cannot be thrown. Keeps the first error until the caller takes it.
  void complain(const std::exception& error) noexcept;
  std::string take_complaint() { return std::exchange(complaint_, {}); }
  /// Returns why this process can do nothing more on this GPU, or empty. Either the GPU is lost, or it has a permanent
  /// error.
  std::string defect() const;

  /// Keeps a finalized communicator until the streams have run empty. `destroy_retired` then destroys it: this waits
  /// for everything on the GPU.
  void retire(CommHandle comm);
  void destroy_retired() noexcept;
  /// A stream for operations that belong to no device.
  StreamHandle housekeeping() const { return housekeeping_; }

  /// The abort flag, in memory that kernels see. If it is not 0, kernels that wait exit.
  const std::uint32_t* abort_flag() const;

 private:
  friend class NcclComm;
  struct Words;

  void release() noexcept;
  void start_records();
  void warm_up_products();
  std::string_view stream_name(StreamHandle stream) const;
  void check_agreement(bool is_late) const;
  const NcclComm* find_bereft() const;
  std::string missing_calls() const;
  void check_indices();
  void enter(const IssuedCall& call) const;
  class WaitRecord;
  bool within_bounds(std::function<void()> calls) noexcept;
  bool abort_communicators() noexcept;
  bool run_empty() noexcept;

  const VendorTables& vendor_;
  GpuContext context_;
  GpuProperties properties_{};
  std::string name_;
  Words* words_ = nullptr;  // the host's address
  const Words* on_device_ = nullptr;  // the same, as kernels see it
  void* pinned_ = nullptr;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<CudaKernels> kernels_;
  std::map<StreamHandle, std::string> streams_;
  std::vector<EventHandle> events_;  // all events ever made, given back or not; destroyed with the GPU
  std::vector<EventHandle> free_events_;
  std::vector<NcclComm*> comms_;
  std::vector<CommHandle> retired_;
  StreamHandle housekeeping_ = nullptr;
  void* scratch_ = nullptr;  // operands of the first products; later only markers write it
  std::unique_ptr<ActivityLog> activity_;
  std::function<std::optional<IssuedCall>()> first_open_call_;
  bool is_lost_ = false;
  std::string complaint_;
};

}  // namespace shardproof::device::cuda

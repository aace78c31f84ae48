// A rank's hold on its GPU, for the life of its world: streams, events, the one wait that everything on it is waited for by, and the way out of
// work that does not end. Devices (cuda_device.hpp) come and go with the scenarios that are played; this stays.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/device/cuda/activity_log.hpp"
#include "harness/device/cuda/vendor_error.hpp"
#include "harness/protocol/collective.hpp"
#include "harness/protocol/flight_record.hpp"

namespace shardproof {
class FlightRing;
}

namespace shardproof::cuda {

class CudaKernels;
class NcclComm;
class Staging;

/// A group that a rank belongs to, as its flight record names it.
struct JoinedGroup {
  FlightGroup known;  ///< its id is alike on all members
  std::size_t place = 0;  ///< in the record, until another one has taken it
};

/// A collective that a rank has issued.
struct IssuedCall {
  std::shared_ptr<JoinedGroup> group;
  Descriptor call;
};

/// What a rank's GPU has to know of the world around it.
struct Surroundings {
  int rank = 0;
  int ordinal = 0;  ///< of the GPU among those that this process sees
  std::function<void()> check;  ///< throws what ends the running case for every rank, and returns while there is nothing
  std::function<Deadline(Deadline now)> give_up_at;  ///< when a wait that begins now gives up
  std::chrono::milliseconds for_abort{5'000};  ///< that communicators and work may take to end once they are told to
  FlightRing* flight = nullptr;  ///< where the rank writes down what it does; nullptr: nowhere
  std::function<std::uint32_t()> epoch;  ///< of the case now running, for that
  bool keeps_records = false;  ///< CUPTI records what runs when
};

/// Work, or an abort, that does not end although it was told to: nothing can be done on this GPU by this process any more.
class GpuLost : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Gpu {
 public:
  /// Throws VendorError; std::runtime_error where there is no GPU of that ordinal, or no CUPTI although records are to be kept.
  Gpu(const VendorTables& vendor, Surroundings surroundings);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const VendorTables& vendor() const { return vendor_; }
  const CudaTable& cuda() const { return *vendor_.cuda; }
  const NcclTable& nccl() const { return *vendor_.nccl; }
  int rank() const { return surroundings_.rank; }
  const GpuProperties& properties() const { return properties_; }
  const std::string& name() const { return name_; }  ///< `GPU 0 (NVIDIA H200)`
  const CudaKernels& kernels() const { return *kernels_; }
  /// nullptr: nobody records what runs.
  ActivityLog* activity() const { return activity_.get(); }

  /// Throws VendorError for what is no success, with all that is known of the place.
  void check(Status status, std::string_view operation, StreamHandle stream = nullptr,
             std::source_location location = std::source_location::current()) const;
  void check_blas(Status status, std::string_view operation, StreamHandle stream = nullptr,
                  std::source_location location = std::source_location::current()) const;
  [[noreturn]] void fail_nccl(Status status, std::string_view operation, std::string_view in_words, StreamHandle stream = nullptr,
                              std::source_location location = std::source_location::current()) const;

  StreamHandle create_stream(const std::string& name);
  void destroy_stream(StreamHandle stream) noexcept;
  /// From those given back, or a new one.
  EventHandle take_event();
  void give_back(EventHandle event) noexcept;
  EventHandle record(StreamHandle stream);
  /// Puts something tiny on the stream that CUPTI records under this id.
  void put_sign(StreamHandle stream, std::uint64_t id);

  /// The one wait: returns when `is_ready` holds and no communicator has failed: an aborted one lets work end that is not done. Throws what the
  /// surroundings have to say, Mismatch, the error of a communicator, what `is_ready` throws, or DeadlineExceeded with `late()` as its text; in
  /// all these cases nothing of what was under way on this GPU goes on (`abandon`).
  void await(const std::function<bool()>& is_ready, const std::function<std::string()>& late);
  /// Until the event has happened.
  void await(EventHandle event, const std::function<std::string()>& late);
  /// For whoever is on its way out by an exception, and must not wait long for others, who may be waiting for it: whether it gets ready within
  /// a second. Throws nothing; false also when the case is over.
  bool ends_soon(const std::function<bool()>& is_ready) noexcept;
  /// Until all that the stream has been given has.
  void run_through(StreamHandle stream, std::string_view what);
  /// Throws GpuLost.
  void require_usable() const;

  /// Who issues collectives here tells which one is the first that is not over, if any; asked when a wait takes long. nullptr: nobody does.
  void set_first_open_call(std::function<std::optional<IssuedCall>()> first_open_call) { first_open_call_ = std::move(first_open_call); }
  /// For the flight record: the rank belongs to a group, and has issued a collective of it.
  std::shared_ptr<JoinedGroup> joined(FlightGroup group) const;
  void issued(const IssuedCall& call) const;

  /// Ends what is under way: kernels that spin or wait at a gate leave, all communicators are aborted together, streams run empty. Where that
  /// takes too long, the GPU is lost.
  void abandon() noexcept;
  bool is_lost() const { return is_lost_; }
  /// Remembers what went wrong where nothing can be thrown: the first one, until it is taken.
  void complain(const std::exception& error) noexcept;
  std::string take_complaint() { return std::exchange(complaint_, {}); }
  /// Why nothing more can be done on this GPU by this process, or empty: it is lost, or an error is there to stay.
  std::string defect() const;

  /// A finalized communicator, to be destroyed when streams have run empty: that waits for everything on the GPU.
  void retire(CommHandle comm);
  void destroy_retired() noexcept;
  /// A stream for what belongs to no device.
  StreamHandle housekeeping() const { return housekeeping_; }

  /// In memory that kernels see: not 0 tells those that wait to leave.
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
  std::string who_is_behind() const;
  void check_indices();
  void enter(const IssuedCall& call) const;
  class WaitRecord;
  bool within_bounds(std::function<void()> calls) noexcept;
  bool abort_communicators() noexcept;
  bool run_empty() noexcept;

  const VendorTables& vendor_;
  Surroundings surroundings_;
  GpuProperties properties_{};
  std::string name_;
  Words* words_ = nullptr;  // the host's address
  const Words* on_device_ = nullptr;  // the same, as kernels see it
  void* pinned_ = nullptr;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<CudaKernels> kernels_;
  std::map<StreamHandle, std::string> streams_;
  std::vector<EventHandle> events_;  // all that were made: they go with the GPU, also those that nobody gives back
  std::vector<EventHandle> free_events_;
  std::vector<NcclComm*> comms_;
  std::vector<CommHandle> retired_;
  StreamHandle housekeeping_ = nullptr;
  void* scratch_ = nullptr;  // operands of the first products; later on nobody reads it
  std::unique_ptr<ActivityLog> activity_;
  std::function<std::optional<IssuedCall>()> first_open_call_;
  bool is_lost_ = false;
  std::string complaint_;
};

}  // namespace shardproof::cuda

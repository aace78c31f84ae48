// One communicator of NCCL, which never blocks the host. After every call the host waits, within bounds, until NCCL has
// finished the call itself. For the work that a call has put on a stream, wait on that stream.
#pragma once

#include <cstddef>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "harness/device/cuda/gpu.hpp"
#include "harness/device/device.hpp"
#include "harness/fabric/descriptor_board.hpp"

namespace shardproof::device::cuda {

class NcclComm {
 public:
  /// Collective over the hosts of this group, which all have the same id. Throws VendorError, and what Gpu::await
  /// throws.
  static std::unique_ptr<NcclComm> make(Gpu& gpu, const Group& hosts, const UniqueId& id,
                                        std::unique_ptr<fabric::DescriptorBoard> board);
  /// Finalizes a healthy communicator, collectively, and leaves it to the GPU to destroy. Other communicators are gone
  /// already.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  /// Issues the collective, which `check` (device.hpp) has accepted, and returns its number in the group. Throws
  /// - std::invalid_argument for a collective that NCCL itself cannot do;
  /// - std::logic_error if the communicator was aborted;
  /// - Mismatch if ranks are known to ask for different things by now.
  std::uint64_t run(StreamHandle stream, const Collective& collective);
  /// Issues a call that `check_coalesced` has accepted. The call, and then each of its collectives, has a number in the
  /// group. Returns the number of the call.
  std::uint64_t run_coalesced(StreamHandle stream, std::span<const Collective> collectives);
  std::uint64_t issued() const { return board_->posted(); }

  /// Throws Mismatch when ranks ask for different things.
  void check_agreement(fabric::DescriptorBoard::Look look) const;
  /// Whether a peer has left or is gone. Throws VendorError for any other asynchronous error.
  bool is_bereft() const;
  [[noreturn]] void fail_bereft() const;
  /// The ranks that have posted fewer calls than this rank; empty: none.
  std::string missing_calls() const { return board_->missing_calls(); }

  bool is_busy() const;  ///< NCCL has not finished the last call
  /// Gives up the handle; the caller aborts the communicator. nullptr: the communicator is already gone.
  CommHandle surrender() noexcept { return std::exchange(handle_, nullptr); }
  bool is_gone() const { return handle_ == nullptr; }

 private:
  NcclComm(Gpu& gpu, const Group& hosts, std::unique_ptr<fabric::DescriptorBoard> board);
  void settle(Status status, std::string_view operation, StreamHandle stream = nullptr,
              std::source_location location = std::source_location::current());
  [[noreturn]] void fail(Status status, std::string_view operation, StreamHandle stream,
                         std::source_location location) const;
  Status state(std::string_view operation) const;
  bool is_fine(Status status) const;
  void require_runnable(const Collective& collective) const;
  std::uint64_t post(const Descriptor& asked);
  NcclOp make_op(StreamHandle stream, const Collective& collective);
  Status enqueue(StreamHandle stream, const Collective& collective, NcclOp op);
  void finish(StreamHandle stream, const Collective& collective, NcclOp op);
  void warm_up();

  Gpu& gpu_;
  std::string name_;
  std::size_t ranks_;
  std::unique_ptr<fabric::DescriptorBoard> board_;
  CommHandle handle_ = nullptr;
  void* scratch_ = nullptr;  ///< on the device: operands of barriers
};

}  // namespace shardproof::device::cuda

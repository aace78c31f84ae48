// One communicator of NCCL, which never blocks the host: after every call it is waited for, within bounds, until NCCL is through with the call
// itself. What the call has put on a stream is waited for there.
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

namespace shardproof::cuda {

class NcclComm {
 public:
  /// Collective over the hosts of this group, which have all got the same id. Throws VendorError, and what Gpu::await throws.
  static std::unique_ptr<NcclComm> make(Gpu& gpu, const Group& hosts, const UniqueId& id, std::unique_ptr<DescriptorBoard> board);
  /// Healthy ones are finalized, collectively, and left to the GPU to be destroyed; others are gone already.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  /// Issues the collective, which `check` (device.hpp) has nothing against, and returns its number in the group. std::invalid_argument for
  /// what NCCL itself cannot do; Mismatch when it is known by now that ranks ask for different things.
  std::uint64_t run(StreamHandle stream, const Collective& collective);
  /// Issues what `check_coalesced` has nothing against. The call, and then each of its collectives, has a number in the group; returned is
  /// that of the call.
  std::uint64_t run_coalesced(StreamHandle stream, std::span<const Collective> collectives);
  std::uint64_t issued() const { return board_->posted(); }

  /// Throws Mismatch when ranks ask for different things.
  void check_agreement(DescriptorBoard::Look look) const;
  /// A peer has left or is gone. Throws VendorError for whatever else went wrong behind the host's back.
  bool is_bereft() const;
  [[noreturn]] void fail_bereft() const;
  /// Which ranks have posted fewer calls than this one; empty: none.
  std::string behind() const { return board_->behind(); }

  bool is_busy() const;  ///< NCCL is not through with the last call
  /// Whoever takes the handle aborts the communicator; nullptr: there is none any more.
  CommHandle surrender() noexcept { return std::exchange(handle_, nullptr); }
  bool is_gone() const { return handle_ == nullptr; }

 private:
  NcclComm(Gpu& gpu, const Group& hosts, std::unique_ptr<DescriptorBoard> board);
  void settle(Status status, std::string_view operation, StreamHandle stream = nullptr,
              std::source_location location = std::source_location::current());
  [[noreturn]] void fail(Status status, std::string_view operation, StreamHandle stream, std::source_location location) const;
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
  std::unique_ptr<DescriptorBoard> board_;
  CommHandle handle_ = nullptr;
  void* scratch_ = nullptr;  ///< on the device: operands of barriers
};

}  // namespace shardproof::cuda

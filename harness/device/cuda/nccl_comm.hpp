// One communicator of NCCL, which never blocks the host: after every call it is waited for, within bounds, until NCCL is through with the call
// itself. What the call has put on a stream is waited for there.
#pragma once

#include <cstddef>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

#include "harness/device/cuda/gpu.hpp"
#include "harness/device/device.hpp"
#include "harness/fabric/descriptor_board.hpp"

namespace shardproof::cuda {

class NcclComm {
 public:
  /// Collective over its ranks, of the hosts alone. Throws VendorError, and what Gpu::await throws.
  static std::unique_ptr<NcclComm> make(Gpu& gpu, const Group& hosts, const UniqueId& id, std::unique_ptr<DescriptorBoard> board);
  /// Collective over this communicator's ranks. `hosts` and `board` are those of the part; nullptr for a negative color.
  std::unique_ptr<NcclComm> split(int color, int key, const Group* hosts, std::unique_ptr<DescriptorBoard> board);
  /// Healthy ones are finalized, collectively; others aborted.
  ~NcclComm();
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  /// Issues the collective, which `check` (device.hpp) has nothing against, and returns its number in the group. std::invalid_argument for
  /// what NCCL itself cannot do; Mismatch when it is known by now that ranks ask for different things.
  std::uint64_t run(StreamHandle stream, const Collective& collective);

  std::uint64_t issued() const { return board_->posted(); }

  /// Throws Mismatch when ranks ask for different things.
  void check_agreement(DescriptorBoard::Look look) const;
  /// Throws VendorError when something went wrong behind the host's back: a peer that is gone.
  void check_health() const;
  /// Whoever takes the handle aborts the communicator; nullptr: there is none any more.
  CommHandle surrender() noexcept { return std::exchange(handle_, nullptr); }
  bool is_gone() const { return handle_ == nullptr; }

 private:
  NcclComm(Gpu& gpu, const Group& hosts, std::unique_ptr<DescriptorBoard> board);
  void settle(Status status, std::string_view operation, StreamHandle stream = nullptr,
              std::source_location location = std::source_location::current());
  void issue(StreamHandle stream, const Collective& collective);

  Gpu& gpu_;
  std::string name_;
  std::size_t ranks_;
  std::unique_ptr<DescriptorBoard> board_;
  CommHandle handle_ = nullptr;
  void* token_ = nullptr;  ///< four bytes on the device: the operand of a barrier
};

}  // namespace shardproof::cuda

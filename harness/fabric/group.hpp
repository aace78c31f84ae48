// What moves bytes between ranks. A Group is an ordered set of ranks that make the same calls in the same order; a fabric makes groups.
// Calls hold their thread until the data is there. Every call is checked against the other ranks' descriptors before bytes move, where the
// fabric can (`pre_checked`). Streams and time are no business of this room: see harness/device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "harness/protocol/collective.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof {

/// What a fabric can promise.
struct FabricCapabilities {
  bool rank_ordered = false;    ///< reductions add in rank order: the same bits on every rank and in every run
  bool pre_checked = false;     ///< descriptors are compared before data moves
  bool survives_abort = false;  ///< groups can be used after an aborted call
  bool multi_host = false;
};

/// The ranks of a group asked for different things. Every rank throws the same text, which names the first two that differ.
class Mismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How results of reductions come about, on every fabric that is rank_ordered: operands are added in rank order, in their own type, rounded
/// after every addition (f16, bf16 too); `avg` divides the sum once at the end, integers towards zero; `premul_sum` multiplies by the
/// factor rounded to the type; integers wrap around; `max` and `min` of anything and NaN are NaN, and of equal values the first rank's.

/// What a finished call tells about itself.
struct Receipt {
  std::uint64_t sequence = 0;
  std::int64_t latest_ready_ns = 0;  ///< the latest `ready_ns` over the ranks of the group
};

/// One call. Sizes in bytes: all-gather out = size × in; reduce-scatter in = size × out; all-reduce, broadcast out = in; all-to-all out =
/// in; send_recv: see `Group::send_recv`. A broadcast reads `in` at its root only; the others may leave it empty. Operands may be in place
/// in all of these but all-to-all and send_recv; see objection.hpp, which has all the rules.
struct Call {
  Descriptor descriptor;  ///< `sequence` is filled in by the group
  std::span<const std::byte> in;
  std::span<std::byte> out;
  int to = -1, from = -1;  ///< of send_recv: ranks of the group; `in` may be empty without the one, `out` without the other
};

class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;  ///< of this process, within the group
  virtual std::span<const int> members() const = 0;  ///< global ranks, in group order
  virtual const FabricCapabilities& capabilities() const = 0;
  virtual std::string_view name() const = 0;
  int size() const { return static_cast<int>(members().size()); }

  /// Throws Mismatch, Released or DeadlineExceeded; std::invalid_argument for sizes that do not fit the kind.
  /// A group of one rank moves bytes locally and issues nothing.
  virtual Receipt run(const Call& call) = 0;
  /// Calls of one kind as a single one: one sequence number, checked together before any data moves, and moved together where the fabric
  /// can. Dtypes, counts, operations and roots may differ from call to call; no call may read what another writes. This default is for
  /// fabrics and wrappers that have nothing better: one call after the other.
  virtual Receipt run_coalesced(std::span<const Call> calls);

  /// Collective over this group: ranks of equal color form a group, ordered by (key, rank). A negative color joins none (returns nullptr).
  virtual std::shared_ptr<Group> split(int color, int key, std::string_view name) = 0;

  // Calls on tensors in host memory; results are new tensors. For tests and checks: engines go through a Communicator.

  Tensor all_gather(const Tensor& mine, std::string_view tag = {});  ///< shape [size, shape of mine…]
  Tensor reduce_scatter(const Tensor& mine, ReduceOp op = ReduceOp::sum,
                        std::string_view tag = {});  ///< dim 0 divides by size; [dim0 / size, …]
  Tensor all_reduce(const Tensor& mine, ReduceOp op = ReduceOp::sum, std::string_view tag = {});
  Tensor broadcast(const Tensor& mine, int root, std::string_view tag = {});
  Tensor all_to_all(const Tensor& mine, std::string_view tag = {});  ///< dim 0 divides by size
  /// Sends to one rank and receives from one rank of the group in one grouped call that all its ranks make, with one dtype and count;
  /// -1 sends or receives nothing, and without a sender the result is an undefined tensor.
  Tensor send_recv(const Tensor& mine, int to, int from, std::string_view tag = {});
  void barrier(std::string_view tag = {});
};

}  // namespace shardproof

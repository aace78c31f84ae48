// Group moves bytes between ranks. It is an ordered set of ranks that make the same calls in the same order. A fabric
// makes groups. A call blocks its thread until the data is there. Where the fabric can (`pre_checked`), it checks every
// call against the other ranks' descriptors before bytes move. Streams and time belong to harness/device.
//
// The room `fabric` has groups, their collectives and the checks of calls.
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

/// The promises of a fabric.
struct FabricCapabilities {
  bool rank_ordered = false;  ///< reductions add in rank order: the same bits on every rank and in every run
  bool pre_checked = false;  ///< descriptors are compared before data moves
  bool survives_abort = false;  ///< groups can be used after an aborted call
  bool multi_host = false;
};

/// The ranks of a group made different requests. Every rank throws the same text, which names the first two requests
/// that differ.
class Mismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The results of reductions, on every fabric that is rank_ordered:
/// - Operands are added in rank order, in their own type, and rounded after every addition (f16, bf16 too).
/// - Integers wrap around.
/// - `avg` divides the sum once at the end, integers towards zero.
/// - `premul_sum` multiplies by the factor, rounded to the type.
/// - `max` and `min` of any value and NaN are NaN. For equal values, they are the first rank's value.

/// The result of a finished call.
struct Receipt {
  std::uint64_t sequence = 0;
  std::int64_t latest_ready_ns = 0;  ///< the latest `ready_ns` over the ranks of the group
};

/// One call. The sizes in bytes are:
/// - all-gather: out = size × in
/// - reduce-scatter: in = size × out
/// - all-reduce, broadcast: out = in
/// - all-to-all: out = in
/// - send_recv: see `Group::send_recv`
///
/// A broadcast reads `in` only at its root; the other ranks may leave it empty. Operands may be in place for all kinds
/// but all-to-all and send_recv. objection.hpp has all the rules.
struct Call {
  Descriptor descriptor;  ///< The group sets `sequence`.
  std::span<const std::byte> in;
  std::span<std::byte> out;
  /// For send_recv: ranks of the group. `in` may be empty without `to`, and `out` without `from`.
  int to = -1, from = -1;
};

class Group {
 public:
  virtual ~Group() = default;

  virtual int rank() const = 0;  ///< rank of this process, within the group
  virtual std::span<const int> members() const = 0;  ///< global ranks, in group order
  virtual const FabricCapabilities& capabilities() const = 0;
  virtual std::string_view name() const = 0;
  int size() const { return static_cast<int>(members().size()); }
  /// After a call that ended early: why no call of this process can reach some rank of the world. Empty: calls can
  /// reach all ranks, or the fabric does not know.
  virtual std::string why_out_of_reach() const { return {}; }

  /// Throws Mismatch, Released or DeadlineExceeded. Throws std::invalid_argument for sizes that do not fit the kind. A
  /// group of one rank moves bytes locally and issues nothing.
  virtual Receipt run(const Call& call) = 0;
  /// Runs calls of one kind as a single call with one sequence number. They are checked together before any data moves,
  /// and move together where the fabric can. Dtypes, counts, operations and roots may differ between the calls. No call
  /// may read bytes that another one writes. This default makes one call after the other. It is for fabrics and
  /// wrappers that have no better way.
  virtual Receipt run_coalesced(std::span<const Call> calls);

  /// Collective over this group. Ranks of equal color form a group, ordered by (key, rank). A rank with a negative
  /// color joins no group and gets nullptr.
  virtual std::shared_ptr<Group> split(int color, int key, std::string_view name) = 0;

  // Calls on tensors in host memory; results are new tensors. They are for tests and checks: engines use a
  // Communicator.

  Tensor all_gather(const Tensor& mine, std::string_view tag = {});  ///< Shape [size, shape of mine…].
  Tensor reduce_scatter(const Tensor& mine, ReduceOp op = ReduceOp::sum,
                        std::string_view tag = {});  ///< `size` must divide dim 0. Shape [dim0 / size, …].
  Tensor all_reduce(const Tensor& mine, ReduceOp op = ReduceOp::sum, std::string_view tag = {});
  Tensor broadcast(const Tensor& mine, int root, std::string_view tag = {});
  Tensor all_to_all(const Tensor& mine, std::string_view tag = {});  ///< `size` must divide dim 0.
  /// Sends to one rank and receives from one rank of the group. All ranks make this one grouped call, with one dtype
  /// and count. -1 sends or receives nothing. Without a sender the result is an undefined tensor.
  Tensor send_recv(const Tensor& mine, int to, int from, std::string_view tag = {});
  void barrier(std::string_view tag = {});
};

}  // namespace shardproof

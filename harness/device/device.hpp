// The interface of a device, which runs an engine's work: streams, events, collectives, and work that declares the
// bytes it touches, in the device's memory. An engine needs nothing else, and the same engine runs on every device.
// Devices and communicators record every call that reaches them. Wrappers (wrappers.hpp) may alter calls before that.
//
// The room `device` has this interface, the simulated device and CUDA. What an engine trains may not enter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/device/device_memory.hpp"
#include "harness/device/stream.hpp"
#include "harness/protocol/collective.hpp"
#include "harness/protocol/trace.hpp"
#include "harness/tensor/kernels.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof {

struct Call;
struct FabricCapabilities;

/// One stream-ordered collective. Shapes are flat; counts follow from the tensors. harness/fabric/objection.hpp has the
/// rules for operands.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_gather;
  ReduceOp op = ReduceOp::none;
  double factor = 1.0;  ///< for premul_sum
  int root = -1;  ///< for broadcast: a rank in the group
  Tensor in, out;
  std::string tag;  ///< what it is for: a module path or parameter-group name
  bool enforces_tag = false;  ///< refuses ranks that have another tag
};

/// A call that no fabric runs: a piece of work replaces its collectives, in a group in which only this rank is real.
/// The device records the call, and charges its cost, like a real call.
struct ImaginedCall {
  std::vector<Collective> collectives;  ///< one, or those of a coalesced call
  std::vector<int> members;
  std::uint64_t sequence = 0;
};

/// A piece of work. `cost` is added to the cost that the device's cost model has for the work's kind and label.
struct Work {
  WorkKind kind = WorkKind::other;
  std::string label;
  std::vector<Tensor> reads, writes;
  Nanoseconds cost = 0;
  std::function<void(const Kernels&, NativeStream)> run;  ///< empty: nothing to compute
  /// the call that this work replaces; used instead of kind and label
  std::shared_ptr<const ImaginedCall> imagined_call = nullptr;
};

class Device : public DeviceMemory {
 public:
  /// The stream that exists from the start.
  static constexpr Stream compute{0, StreamRole::compute};
  virtual Stream create_stream(StreamRole role, std::string_view name) = 0;

  virtual void submit(Stream stream, Work work) = 0;

  virtual Event record(Stream stream) = 0;
  virtual void wait(Stream stream, Event event) = 0;
  /// `later` waits for all work issued so far on `earlier`.
  void wait(Stream later, Stream earlier) { wait(later, record(earlier)); }
  virtual void synchronize(Stream stream) = 0;
  virtual void synchronize(Event event) = 0;
  /// Waits for all work issued so far, on every stream.
  virtual void synchronize() = 0;

  /// A phase boundary, at the end of all work issued so far on the compute stream.
  virtual void mark(std::string_view text) = 0;
};

/// The collective in the form that a group takes. A tag that is too long for a descriptor is cut. The call borrows the
/// operands.
Call as_call(const Collective& collective);

/// The descriptor of the call of these collectives, for flight records and boards of descriptors. It has the first
/// one's tag.
Descriptor coalesced_descriptor(std::span<const Collective> collectives);

/// Throws std::invalid_argument if a group of `size` ranks cannot run this collective on a stream. The reasons are a
/// kind that only the group itself offers, missing operands, operands of different types, and those of `objection`. The
/// text begins with `where`. Throws std::logic_error in a group of one rank.
void check(const Collective& collective, int rank, int size, std::string_view where);
/// The same for the collectives of one call. It also refuses an empty call, several kinds of collective, and memory
/// that one collective writes and another one touches.
void check_coalesced(std::span<const Collective> collectives, int rank, int size, std::string_view where);

/// The collectives of one group on one device.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  ///< within the group
  virtual std::span<const int> members() const = 0;  ///< global ranks
  int size() const { return static_cast<int>(members().size()); }
  virtual const FabricCapabilities& capabilities() const = 0;  ///< what the transport can promise
  /// Issues the collective on the stream. Throws std::logic_error in a group of one rank.
  virtual void run(Stream stream, const Collective& collective) = 0;
  /// Issues collectives of one kind as a single call: all start when all can start, and all end together. No collective
  /// may read or write what another one writes. This default issues one after the other, for communicators without a
  /// better way.
  virtual void run_coalesced(Stream stream, std::span<const Collective> collectives);
  /// Collective over the hosts of this group: ranks of equal color form a group, ordered by (key, rank). Returns
  /// nullptr for a negative color, which joins no group.
  virtual std::unique_ptr<Communicator> split(int color, int key, std::string_view name) = 0;
};

}  // namespace shardproof

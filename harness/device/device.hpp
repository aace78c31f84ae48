// What runs work: streams, events, buffers, and work with the bytes that it touches. Nothing else is needed to write an engine, and the
// same engine runs on every device. Devices and communicators record what passes through them; wrappers (wrappers.hpp) may alter it above
// them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/collective.hpp"
#include "harness/protocol/trace.hpp"
#include "harness/tensor/kernels.hpp"
#include "harness/tensor/tensor.hpp"

namespace shardproof {

struct Call;
struct FabricCapabilities;

struct Stream {
  std::uint32_t id = 0;
  StreamRole role = StreamRole::compute;
  friend bool operator==(const Stream&, const Stream&) = default;
};

struct Event {
  std::uint64_t id = 0;
  friend bool operator==(const Event&, const Event&) = default;
};

/// One stream-ordered collective. Shapes are flat; counts follow from the tensors. What fits what: harness/fabric/objection.hpp.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_gather;
  ReduceOp op = ReduceOp::none;
  double factor = 1.0;  ///< of premul_sum
  int root = -1;  ///< of broadcast, in the group
  Tensor in, out;
  std::string tag;  ///< what it is for: a module path or parameter-group name
  bool enforces_tag = false;  ///< refuses ranks that have another tag
};

/// A call that no fabric runs: work stands for its collectives, in a group of which only this rank is real. It is recorded, and costs, as
/// the call would.
struct ImaginedCall {
  std::vector<Collective> collectives;  ///< one, or those of a coalesced call
  std::vector<int> members;
  std::uint64_t sequence = 0;
};

/// A piece of work. `cost` comes on top of what the device's cost model says for its kind and label.
struct Work {
  WorkKind kind = WorkKind::other;
  std::string label;
  std::vector<Tensor> reads, writes;
  Nanoseconds cost = 0;
  std::function<void(const Kernels&, NativeStream)> run;  ///< empty: nothing to compute
  std::shared_ptr<const ImaginedCall> stands_for = nullptr;  ///< instead of kind and label
};

class Device {
 public:
  virtual ~Device() = default;

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
  /// All work issued so far, on every stream.
  virtual void synchronize() = 0;

  /// Memory that work on `stream` may use from here on; filled with a poison pattern where that costs nothing.
  virtual std::shared_ptr<Storage> allocate(Stream stream, std::size_t bytes, MemoryClass memory, std::string_view label) = 0;
  /// Gives the memory back once all work issued so far on `stream` has ended; views of it may not be used afterwards. Storage that is
  /// dropped without this is released on the stream that it was allocated on.
  virtual void release(Stream stream, const std::shared_ptr<Storage>& storage) = 0;
  /// The same for memory that was adopted from an allocator of the subject's that caches: it keeps the memory, and gives it to whoever next
  /// asks for some on `stream`. So nobody has to have ended with it before that next one is adopted there. Throws std::invalid_argument for
  /// memory that was not adopted.
  virtual void release_to_cache(Stream stream, const std::shared_ptr<Storage>& storage) = 0;
  Tensor empty(Stream stream, DType dtype, const Shape& shape, MemoryClass memory, std::string_view label);
  /// The same for memory that the subject has by other means: it is not freed, nor filled but by a device that hides what work does not
  /// declare, which restores it (CostModel::hide_undeclared_memory), and has to stay where it is until it is released. Throws
  /// std::invalid_argument for memory that is part of a buffer already or does not begin at a multiple of 8 bytes, and std::logic_error on
  /// a GPU, where memory is the device's own.
  virtual std::shared_ptr<Storage> adopt(Stream stream, std::byte* data, std::size_t bytes, MemoryClass memory, std::string_view label) = 0;
  /// What a buffer that has not been released turned out to hold, as if it had been said when it was allocated.
  virtual void describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label) = 0;

  /// Says that the host itself is about to read or write these bytes, without waiting for anything: whoever does so synchronizes before.
  /// Races of the host with its streams are found from this. A device that records nothing does nothing.
  virtual void host_access(std::string_view label, const std::vector<Tensor>& reads, const std::vector<Tensor>& writes) = 0;

  /// A copy in host memory. Whoever asks has synchronized with the work that writes it, and has said that it reads it (`host_access`).
  virtual Tensor to_host(const Tensor& tensor) = 0;

  /// A phase boundary, at the end of all work issued so far on the compute stream.
  virtual void mark(std::string_view text) = 0;
};

/// As the group is asked for it. A tag longer than a descriptor's is cut there; the operands are borrowed.
Call as_call(const Collective& collective);

/// As flight records and boards of descriptors have the call of these collectives. It has the tag of the first.
Descriptor coalesced_descriptor(std::span<const Collective> collectives);

/// Throws std::invalid_argument when a group of `size` ranks cannot run this on a stream: operands missing or of unlike types, or what
/// `objection` says against it. The text begins with `where`.
void check(const Collective& collective, int rank, int size, std::string_view where);
/// The same for collectives of one call. It also refuses an empty call, several kinds, and memory that one writes and another one touches.
void check_coalesced(std::span<const Collective> collectives, int rank, int size, std::string_view where);

/// The collectives of one group on one device.
class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;  ///< within the group
  virtual std::span<const int> members() const = 0;  ///< global ranks
  int size() const { return static_cast<int>(members().size()); }
  virtual const FabricCapabilities& capabilities() const = 0;  ///< what moves the bytes can promise
  /// Issues the collective on the stream. A group of one rank must not be asked: std::logic_error.
  virtual void run(Stream stream, const Collective& collective) = 0;
  /// Issues collectives of one kind as a single one: all start when all can start, and all end together. No one may read or write what
  /// another one writes. This default is for communicators that have nothing better: one after the other.
  virtual void run_coalesced(Stream stream, std::span<const Collective> collectives);
  /// Collective over this group, of the hosts alone: ranks of equal color form a group, ordered by (key, rank). A negative color joins
  /// none: nullptr.
  virtual std::unique_ptr<Communicator> split(int color, int key, std::string_view name) = 0;
};

}  // namespace shardproof

// Trace is the list of a subject's actions on one rank, in the order in which its host did them. The device and the
// communicators below the subject write it; the subject itself never does. The analyses of harness/trace and the
// exports read it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/protocol/collective.hpp"

namespace shardproof {

/// Virtual or real time since the start of a case, in nanoseconds.
using Nanoseconds = std::int64_t;

/// The purpose of a stream. Engines may have several streams of one role.
enum class StreamRole : std::uint8_t { compute, copy_in, all_gather, reduce, all_reduce, other };

/// The purpose of a piece of work. Together with its label it selects a cost.
enum class WorkKind : std::uint8_t {
  forward,         ///< A module's own forward computation.
  backward,        ///< A module's own backward computation.
  copy_in,         ///< Packs shards for an all-gather.
  copy_out,        ///< Unpacks gathered shards into parameters.
  reduce_copy_in,  ///< Packs gradients for a reduction.
  reduce_copy_out, ///< Unpacks, scales or accumulates reduced gradients.
  loss,
  optimizer,
  fill,
  snapshot,        ///< A copy that an observer takes. Not part of the subject.
  other,
};

/// The content of a buffer. Live bytes are counted per class.
enum class MemoryClass : std::uint8_t {
  shard,            ///< this rank's part of a parameter
  gathered,         ///< flat result of an all-gather
  parameter,        ///< unsharded parameter
  gradient,         ///< unsharded gradient
  sharded_gradient,
  reduce_input,     ///< flat operand of a reduction
  optimizer_state,
  activation,
  other,
};

std::string_view to_string(StreamRole role);
std::string_view to_string(WorkKind kind);
std::string_view to_string(MemoryClass memory);

/// Bytes [offset, offset + length) of a buffer. Buffer ids count from 1 and are never reused within a case. Id 0 is
/// plain host memory, which no fact names.
struct ByteRange {
  std::uint64_t buffer = 0;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

namespace fact {

struct StreamCreated {
  std::uint32_t stream = 0;
  StreamRole role = StreamRole::other;
  std::string name;
  friend bool operator==(const StreamCreated&, const StreamCreated&) = default;
};

/// A piece of work issued on a stream.
struct Work {
  std::uint32_t stream = 0;
  WorkKind kind = WorkKind::other;
  std::string label;  ///< module path or parameter-group name
  Nanoseconds start = 0, end = 0;
  std::vector<ByteRange> reads, writes;
  friend bool operator==(const Work&, const Work&) = default;
};

/// A collective issued on a stream. Counts are elements: of this rank's whole input and whole output.
struct Collective {
  std::uint32_t stream = 0;
  CollectiveKind kind = CollectiveKind::barrier;
  DType dtype = DType::u8;
  ReduceOp op = ReduceOp::none;
  std::uint64_t in_count = 0, out_count = 0;
  std::uint64_t sequence = 0;
  std::vector<int> group;  ///< global ranks, in group order
  std::string tag;
  Nanoseconds start = 0, end = 0;
  std::vector<ByteRange> reads, writes;
  friend bool operator==(const Collective&, const Collective&) = default;
};

/// True for two collectives of one coalesced call. They share its sequence number and its times, and are consecutive.
inline bool are_of_one_call(const Collective& a, const Collective& b) {
  return a.stream == b.stream && a.sequence == b.sequence && a.group == b.group;
}

/// The event captures the end of all work issued so far on the stream.
struct EventRecorded {
  std::uint32_t stream = 0;
  std::uint64_t event = 0;
  friend bool operator==(const EventRecorded&, const EventRecorded&) = default;
};

/// Work that is issued later on the stream starts after the event's last recording before this fact.
struct EventWaited {
  std::uint32_t stream = 0;
  std::uint64_t event = 0;
  friend bool operator==(const EventWaited&, const EventWaited&) = default;
};

/// The host waited for all work that was issued so far on the stream.
struct StreamSynchronized {
  std::uint32_t stream = 0;
  friend bool operator==(const StreamSynchronized&, const StreamSynchronized&) = default;
};

/// The host waited for the event.
struct EventSynchronized {
  std::uint64_t event = 0;
  friend bool operator==(const EventSynchronized&, const EventSynchronized&) = default;
};

/// From here on the stream may use the buffer. Other streams may use it only after an event that is recorded after
/// this.
struct Allocated {
  std::uint32_t stream = 0;
  std::uint64_t buffer = 0;
  std::uint64_t bytes = 0;
  MemoryClass memory = MemoryClass::other;
  std::string label;
  bool adopted = false;  ///< the subject's own memory, allocated by other means than the device
  friend bool operator==(const Allocated&, const Allocated&) = default;
};

/// The stream gives the buffer back once all work issued so far on it has ended. With `to_cache`, the buffer goes to
/// the subject's cache, and the next adoption on the stream may take it from there.
struct Released {
  std::uint32_t stream = 0;
  std::uint64_t buffer = 0;
  bool to_cache = false;
  friend bool operator==(const Released&, const Released&) = default;
};

/// The host itself touched bytes.
struct HostAccess {
  std::string label;
  std::vector<ByteRange> reads, writes;
  friend bool operator==(const HostAccess&, const HostAccess&) = default;
};

/// A phase boundary. `time` is the end of all work issued so far on the compute stream.
struct Mark {
  std::string text;
  Nanoseconds time = 0;
  friend bool operator==(const Mark&, const Mark&) = default;
};

}  // namespace fact

using Fact = std::variant<fact::StreamCreated, fact::Work, fact::Collective, fact::EventRecorded, fact::EventWaited,
                          fact::StreamSynchronized, fact::EventSynchronized, fact::Allocated, fact::Released,
                          fact::HostAccess, fact::Mark>;

/// One rank's facts of one case, in host order. Stream 0 is the compute stream.
struct Trace {
  int rank = 0;
  std::vector<Fact> facts;
  friend bool operator==(const Trace&, const Trace&) = default;
};

/// The streams that a trace uses, and always the compute stream.
struct StreamInfo {
  StreamRole role = StreamRole::compute;
  std::string name;
};
std::map<std::uint32_t, StreamInfo> streams(const Trace& trace);

}  // namespace shardproof

// Where a scenario is played: a fresh device with the collectives of one group of ranks, and what was recorded on it.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "harness/device/cost_model.hpp"
#include "harness/device/device.hpp"

namespace shardproof {

/// Holds streams back until the host opens it: what ends while it is closed has needed nothing of what is behind it. Opened when it goes.
class StreamGate {
 public:
  virtual ~StreamGate() = default;
  /// What is put on the stream from here on runs when the gate opens.
  virtual void hold(Stream stream) = 0;
  virtual void open() = 0;
  /// Whether every stream that it was to hold is still held: the evidence.
  virtual bool holds() const = 0;
};

/// What times rest on that were recorded by the device itself, and how they compare with those of its events.
struct RecordedTimes {
  std::size_t pieces = 0;  ///< of work and collectives that have them; the others launched nothing, and keep the times of events
  Nanoseconds alignment_error = 0;  ///< between the clock of the records and that of events, at most
  Nanoseconds beyond_events = 0;  ///< how far a piece's records reach out of the time between the events before and behind it, at most
};

/// What happened on a device. Its times are virtual on every device: what the order of the calls and the costs of the scenario make of it
/// (docs/simulated-time.md), so that they are the same in every run.
struct Recording {
  Trace trace;
  /// The same facts at the times that a clock said, counted from an origin of this rank's own; none where there is nothing to measure.
  std::optional<Trace> measured;
  /// Of `measured`, where the device itself recorded its times; none where they are those of events.
  std::optional<RecordedTimes> records;
  /// What a clock said, be it the virtual one.
  const Trace& clocked() const { return measured ? *measured : trace; }
};

class Platform {
 public:
  virtual ~Platform() = default;
  virtual Device& device() = 0;
  virtual Communicator& world() = 0;
  /// Closed; nullptr where work is done as it is issued, so that nothing can be held back. It goes before the platform.
  virtual std::unique_ptr<StreamGate> gate() = 0;
  /// Ends the recording. Collective over the world: ranks tell each other when their collectives were ready. Whoever calls it has synchronized
  /// the device before: nothing is under way any more.
  virtual Recording take_recording() = 0;
  /// Bytes of buffers not yet released.
  virtual std::size_t live_bytes() const = 0;
};

/// Where a rank's platforms come from, for the life of its world.
class Platforms {
 public:
  virtual ~Platforms() = default;
  /// Collective over the world.
  virtual std::unique_ptr<Platform> make(const CostModel& costs) = 0;
  /// Why scenarios with these costs cannot be played here; empty when they can. The same on every rank.
  virtual std::string objection(const CostModel& costs) const = 0;
  /// What went wrong when the last platform was given back, told once; or empty.
  virtual std::string complaint() = 0;
  /// Why nothing more can be played here by this process, or empty.
  virtual std::string defect() const = 0;
};

}  // namespace shardproof

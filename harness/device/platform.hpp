// The platform that a scenario runs on: a fresh device, its collectives for one group of ranks, and the recording of
// what happened there.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "harness/device/cost_model.hpp"
#include "harness/device/device.hpp"
#include "harness/device/device_options.hpp"

namespace shardproof {

/// Holds streams back until the host opens it. Work that ends while the gate is closed did not need any held work. The
/// destructor opens the gate.
class StreamGate {
 public:
  virtual ~StreamGate() = default;
  /// Work that is put on the stream from here on runs after the gate opens.
  virtual void hold(Stream stream) = 0;
  virtual void open() = 0;
  /// Whether every stream that was given to `hold` is still held: the evidence.
  virtual bool holds() const = 0;
};

/// Describes times that the device itself recorded, and how they compare with the times of its events.
struct RecordedTimes {
  /// Pieces of work and collectives with recorded times. The others launched nothing, and keep the times of events.
  std::size_t pieces = 0;
  /// The largest possible error between the clock of the records and the clock of the events.
  Nanoseconds alignment_error = 0;
  /// How far, at most, a piece's records reach beyond the interval between the events before and after it.
  Nanoseconds beyond_events = 0;
};

/// A record of what happened on a device. Times in `trace` are virtual on every device: they follow from the order of
/// the calls and the costs of the scenario (docs/simulated-time.md). So they are the same in every run.
struct Recording {
  Trace trace;
  /// The same facts at the times of a clock, counted from this rank's own origin. Empty if there is nothing to measure.
  std::optional<Trace> measured;
  /// Describes `measured` if the device itself recorded the times. Empty if they are the times of events.
  std::optional<RecordedTimes> records;
  /// The trace at the times of a clock: measured if possible, otherwise virtual.
  const Trace& clocked() const { return measured ? *measured : trace; }
};

class Platform {
 public:
  virtual ~Platform() = default;
  virtual Device& device() = 0;
  virtual Communicator& world() = 0;
  /// Returns a closed gate. Returns nullptr if the device does work when it is issued, so that it cannot hold work
  /// back. The gate must be destroyed before the platform.
  virtual std::unique_ptr<StreamGate> gate() = 0;
  /// Ends the recording. Collective over the world: ranks exchange the times when their collectives were ready. The
  /// caller has synchronized the device, so no work is in flight.
  virtual Recording take_recording() = 0;
  /// Bytes of buffers not yet released.
  virtual std::size_t live_bytes() const = 0;
};

/// Makes a rank's platforms, for the life of its world.
class Platforms {
 public:
  virtual ~Platforms() = default;
  /// Collective over the world.
  virtual std::unique_ptr<Platform> make(const CostModel& costs, const DeviceOptions& options) = 0;
  /// Returns why scenarios with these costs and options cannot run here; empty if they can. It is the same on every
  /// rank.
  virtual std::string objection(const CostModel& costs, const DeviceOptions& options) const = 0;
  /// Returns, once, the error from giving back the last platform; or empty.
  virtual std::string complaint() = 0;
  /// Returns why this process can run nothing more here; or empty.
  virtual std::string defect() const = 0;
};

}  // namespace shardproof

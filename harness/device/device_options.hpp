// The options of a scenario for its device: how the device runs work and collectives, whatever they cost.
#pragma once

namespace shardproof {

struct DeviceOptions {
  static constexpr int most_imagined_ranks = 1024;

  /// Each kind of collective in a group has its own resource, instead of one resource per group.
  bool separate_resources = false;
  /// For a world of one rank. Its collectives are those of a group of this many ranks, and the real rank is the first
  /// of them. The other ranks are imagined: each holds what the real rank holds. Work on the device replaces the
  /// communication, and costs what the collective would cost. 0: no rank is imagined.
  int imagined_ranks = 0;
  bool single_stream = false;  ///< Everything runs on the compute stream: the serial reference.
  /// While a piece of work runs, the device fills every buffer that the work does not declare with a poison value. It
  /// restores these buffers afterwards. A declared f32 output with unwritten elements is a std::logic_error. This takes
  /// no virtual time. It takes real time in proportion to the live memory.
  bool hide_undeclared_memory = false;

  friend bool operator==(const DeviceOptions&, const DeviceOptions&) = default;
};

}  // namespace shardproof

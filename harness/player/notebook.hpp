// The notes of a player while an engine runs: callbacks and operands of collectives, with copies of their tensors where the script asks for
// them. A copy is made on the stream of the work on its tensor. The host reads the copies when all work has ended.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/player/run.hpp"

namespace shardproof::scenario {

/// A copy on the device, made on this stream; undefined of what is undefined.
Tensor snapshot(Device& device, Stream stream, const Tensor& source);

/// Replaces these by copies in host memory, those that are defined. The caller has synchronized with the streams they were made on.
void bring_home(Device& device, const std::vector<Tensor*>& snapshots);

/// Hooks that the player gave to an engine may hold it after the play has ended. A closed notebook notes nothing and has no device.
class Notebook {
 public:
  /// Operands are noted, and copies of tensors made, where the script asks for it.
  Notebook(Device& device, const Script& script) : device_(&device), keeps_tensors_(script.keep_tensors) {}

  /// All later notes belong to this call of the script. Notes before the first call belong to `create`.
  void turn_to(int iteration, std::string call);

  bool is_open() const { return device_ != nullptr; }
  Device& device() const { return *device_; }  ///< of an open one

  /// Sets iteration and call. The result is valid until the next call is noted.
  Callback& note(Callback callback);
  /// Notes the operands of the callback. They are copied on this stream.
  void note_tensors(Callback& callback, Stream stream, const std::vector<Tensor>& tensors);
  /// Notes what a gradient hook left in this tensor, of the callback that was noted last for it.
  void note_result(std::size_t callback, Stream stream, const Tensor& result);
  /// The number of the callback that was noted last.
  std::size_t last_callback() const { return callbacks_.size() - 1; }
  void note_operand(Stream stream, const Collective& collective, std::span<const int> group);
  /// Notes that the gradient hook of this callback has issued the last collective.
  void note_collective(std::size_t callback);

  /// Everything noted, with its tensors in host memory: nothing may be under way on the device, and what is freed here is when it returns.
  void hand_over(Run::Notes& notes);
  void close();

 private:
  Device* device_;
  bool keeps_tensors_;
  int iteration_ = 0;
  std::string call_ = "create";
  std::vector<Callback> callbacks_;
  std::vector<Operand> operands_;
  std::size_t collectives_ = 0;
};

}  // namespace shardproof::scenario

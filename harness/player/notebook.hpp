// The notes of a player while an engine runs: callbacks, and operands of collectives. It also keeps copies of their
// tensors if the script asks for them. A copy is made on the stream of the work on its tensor. The host reads the
// copies when all work has ended.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/device/device.hpp"
#include "harness/player/run.hpp"

namespace shardproof::player {

/// A copy on the device, made on this stream. Undefined if the source is undefined.
Tensor snapshot(Device& device, Stream stream, const Tensor& source);

/// Replaces the defined snapshots with copies in host memory. The caller has synchronized with the streams that made
/// them.
void bring_home(Device& device, const std::vector<Tensor*>& snapshots);

/// The notebook of one play. An engine may hold the player's hooks after the play has ended: a closed notebook notes
/// nothing and has no device.
class Notebook {
 public:
  /// Notes operands and copies tensors only if the script asks for it.
  Notebook(Device& device, const Script& script) : device_(&device), keeps_tensors_(script.keep_tensors) {}

  /// All later notes belong to this call of the script. Notes before the first call belong to `create`.
  void turn_to(int iteration, std::string call);

  bool is_open() const { return device_ != nullptr; }
  Device& device() const { return *device_; }  ///< only of an open notebook

  /// Adds a callback, with the current iteration and call. The result is valid until the next callback is added.
  Callback& note(Callback callback);
  /// Notes the operands of the callback, and copies them on this stream.
  void note_tensors(Callback& callback, Stream stream, const std::vector<Tensor>& tensors);
  /// Notes the result of the gradient hook of this callback, and copies it on this stream.
  void note_result(std::size_t callback, Stream stream, const Tensor& result);
  /// The number of the last callback.
  std::size_t last_callback() const { return callbacks_.size() - 1; }
  void note_operand(Stream stream, const Collective& collective, std::span<const int> group);
  /// Notes that the gradient hook of this callback issued the last collective.
  void note_collective(std::size_t callback);

  /// Moves all notes to `notes`, with their tensors in host memory. No work may run on the device. The device's copies
  /// are freed when it returns.
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

}  // namespace shardproof::player

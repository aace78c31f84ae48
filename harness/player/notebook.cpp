#include "harness/player/notebook.hpp"

#include <utility>

namespace shardproof::player {

Tensor snapshot(Device& device, Stream stream, const Tensor& source) {
  if (!source.defined()) return {};
  const Tensor target = device.empty(stream, source.dtype(), source.shape(), MemoryClass::other, "snapshot");
  device.submit(stream, {.kind = WorkKind::snapshot,
                         .label = "snapshot",
                         .reads = {source},
                         .writes = {target},
                         .run = [=](const Kernels& kernels, NativeStream on) { kernels.copy(on, target, source); }});
  return target;
}

void bring_home(Device& device, const std::vector<Tensor*>& snapshots) {
  std::vector<Tensor> read;
  for (const Tensor* snapshot : snapshots) {
    if (snapshot->defined()) read.push_back(*snapshot);
  }
  device.host_access("snapshot", read, {});
  for (Tensor* snapshot : snapshots) {
    if (snapshot->defined()) *snapshot = device.to_host(*snapshot);
  }
}

void Notebook::turn_to(int iteration, std::string call) {
  iteration_ = iteration;
  call_ = std::move(call);
}

Callback& Notebook::note(Callback callback) {
  callback.iteration = iteration_;
  callback.during = call_;
  return callbacks_.emplace_back(std::move(callback));
}

void Notebook::note_tensors(Callback& callback, Stream stream, const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    callback.sizes.push_back({tensor.dtype(), tensor.shape()});
    if (keeps_tensors_) callback.tensors.push_back(snapshot(*device_, stream, tensor));
  }
}

void Notebook::note_result(std::size_t callback, Stream stream, const Tensor& result) {
  if (keeps_tensors_)
    std::get<GradientHookCall>(callbacks_.at(callback).detail).result = snapshot(*device_, stream, result);
}

void Notebook::note_operand(Stream stream, const Collective& collective, std::span<const int> group) {
  ++collectives_;
  if (!is_open() || !keeps_tensors_) return;
  operands_.push_back({.kind = collective.kind,
                       .op = collective.op,
                       .tag = collective.tag,
                       .group = {group.begin(), group.end()},
                       .iteration = iteration_,
                       .during = call_,
                       .in = snapshot(*device_, stream, collective.in)});
}

void Notebook::note_collective(std::size_t callback) {
  std::get<GradientHookCall>(callbacks_.at(callback).detail).collective = collectives_ - 1;
}

void Notebook::hand_over(Run::Notes& notes) {
  std::vector<Tensor*> snapshots;
  for (Callback& callback : callbacks_) {
    for (Tensor& tensor : callback.tensors) snapshots.push_back(&tensor);
    if (auto* const hook = std::get_if<GradientHookCall>(&callback.detail)) snapshots.push_back(&hook->result);
  }
  for (Operand& operand : operands_) snapshots.push_back(&operand.in);
  if (keeps_tensors_) {
    bring_home(*device_, snapshots);
    device_->synchronize();
  }
  notes.callbacks = std::exchange(callbacks_, {});
  notes.operands = std::exchange(operands_, {});
}

void Notebook::close() {
  callbacks_.clear();
  operands_.clear();
  device_ = nullptr;
}

}  // namespace shardproof::player

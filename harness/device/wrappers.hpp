// Wrappers between an engine and its device, kernels or communicator. Each passes every call on. A derived class
// overrides the calls that interest it.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/device/device.hpp"

namespace shardproof {

class DeviceWrapper : public Device {
 public:
  explicit DeviceWrapper(Device& inner) : inner_(inner) {}

  using Device::wait;
  Stream create_stream(StreamRole role, std::string_view name) override { return inner_.create_stream(role, name); }
  void submit(Stream stream, Work work) override { inner_.submit(stream, std::move(work)); }
  Event record(Stream stream) override { return inner_.record(stream); }
  void wait(Stream stream, Event event) override { inner_.wait(stream, event); }
  void synchronize(Stream stream) override { inner_.synchronize(stream); }
  void synchronize(Event event) override { inner_.synchronize(event); }
  void synchronize() override { inner_.synchronize(); }
  std::shared_ptr<Storage> allocate(Stream stream, std::size_t bytes, MemoryClass memory,
                                    std::string_view label) override {
    return inner_.allocate(stream, bytes, memory, label);
  }
  void release(Stream stream, const std::shared_ptr<Storage>& storage) override { inner_.release(stream, storage); }
  void release_to_cache(Stream stream, const std::shared_ptr<Storage>& storage) override {
    inner_.release_to_cache(stream, storage);
  }
  std::shared_ptr<Storage> adopt(Stream stream, std::byte* data, std::size_t bytes, MemoryClass memory,
                                 std::string_view label) override {
    return inner_.adopt(stream, data, bytes, memory, label);
  }
  void describe(const std::shared_ptr<Storage>& storage, MemoryClass memory, std::string_view label) override {
    inner_.describe(storage, memory, label);
  }
  void host_access(std::string_view label, const std::vector<Tensor>& reads,
                   const std::vector<Tensor>& writes) override {
    inner_.host_access(label, reads, writes);
  }
  Tensor to_host(const Tensor& tensor) override { return inner_.to_host(tensor); }
  void mark(std::string_view text) override { inner_.mark(text); }

 protected:
  Device& inner_;
};

/// Wraps the kernels that work computes with. A DeviceWrapper hands this wrapper to the work that passes through it.
class KernelsWrapper : public Kernels {
 public:
  explicit KernelsWrapper(const Kernels& inner) : inner_(inner) {}

  void copy(NativeStream stream, const Tensor& out, const Tensor& in) const override { inner_.copy(stream, out, in); }
  void fill(NativeStream stream, const Tensor& out, double value) const override { inner_.fill(stream, out, value); }
  void scale(NativeStream stream, const Tensor& out, const Tensor& in, double factor) const override {
    inner_.scale(stream, out, in, factor);
  }
  void divide(NativeStream stream, const Tensor& out, const Tensor& in, double divisor) const override {
    inner_.divide(stream, out, in, divisor);
  }
  void accumulate(NativeStream stream, const Tensor& out, const Tensor& in) const override {
    inner_.accumulate(stream, out, in);
  }
  void matmul(NativeStream stream, const Tensor& out, const Tensor& a, const Tensor& b, Matmul how) const override {
    inner_.matmul(stream, out, a, b, how);
  }
  void add_row(NativeStream stream, const Tensor& out, const Tensor& row) const override {
    inner_.add_row(stream, out, row);
  }
  void sum_rows(NativeStream stream, const Tensor& out, const Tensor& in, bool add) const override {
    inner_.sum_rows(stream, out, in, add);
  }
  void relu(NativeStream stream, const Tensor& out, const Tensor& in) const override { inner_.relu(stream, out, in); }
  void relu_backward(NativeStream stream, const Tensor& grad_in, const Tensor& grad_out,
                     const Tensor& out) const override {
    inner_.relu_backward(stream, grad_in, grad_out, out);
  }
  void scale_by(NativeStream stream, const Tensor& out, const Tensor& in, const Tensor& factor) const override {
    inner_.scale_by(stream, out, in, factor);
  }
  void dot(NativeStream stream, const Gradient& total, const Tensor& a, const Tensor& b) const override {
    inner_.dot(stream, total, a, b);
  }
  void embedding(NativeStream stream, const Tensor& out, const Tensor& weight, const Tensor& ids) const override {
    inner_.embedding(stream, out, weight, ids);
  }
  void embedding_backward(NativeStream stream, const Gradient& weight, const Tensor& grad_out,
                          const Tensor& ids) const override {
    inner_.embedding_backward(stream, weight, grad_out, ids);
  }
  void add_positions(NativeStream stream, const Tensor& out, const Tensor& positions) const override {
    inner_.add_positions(stream, out, positions);
  }
  void add_positions_backward(NativeStream stream, const Gradient& positions, const Tensor& grad_out) const override {
    inner_.add_positions_backward(stream, positions, grad_out);
  }
  void layer_norm(NativeStream stream, const Tensor& out, const Tensor& in, const Tensor& weight,
                  const Tensor& bias) const override {
    inner_.layer_norm(stream, out, in, weight, bias);
  }
  void layer_norm_backward(NativeStream stream, const LayerNormGradients& gradients, const Tensor& grad_out,
                           const Tensor& in, const Tensor& weight) const override {
    inner_.layer_norm_backward(stream, gradients, grad_out, in, weight);
  }
  void attention(NativeStream stream, const Tensor& out, const Attention& of) const override {
    inner_.attention(stream, out, of);
  }
  void attention_backward(NativeStream stream, const AttentionGradients& gradients, const Tensor& grad_out,
                          const Attention& of) const override {
    inner_.attention_backward(stream, gradients, grad_out, of);
  }
  void sum(NativeStream stream, const Tensor& out, const Tensor& in) const override { inner_.sum(stream, out, in); }
  void sum_of_squares(NativeStream stream, const Tensor& out, const Tensor& in) const override {
    inner_.sum_of_squares(stream, out, in);
  }
  void dot_rows(NativeStream stream, const Tensor& out, const Tensor& in, const Tensor& row) const override {
    inner_.dot_rows(stream, out, in, row);
  }
  void cross_entropy(NativeStream stream, const Tensor& out, const Tensor& logits,
                     const Tensor& targets) const override {
    inner_.cross_entropy(stream, out, logits, targets);
  }
  void cross_entropy_backward(NativeStream stream, const Tensor& grad_logits, const Tensor& logits,
                              const Tensor& targets) const override {
    inner_.cross_entropy_backward(stream, grad_logits, logits, targets);
  }
  void power_sum(NativeStream stream, const Tensor& out, const Tensor& in, double power, bool add) const override {
    inner_.power_sum(stream, out, in, power, add);
  }
  void power_root(NativeStream stream, const Tensor& out, const Tensor& in, double power) const override {
    inner_.power_root(stream, out, in, power);
  }
  void clip(NativeStream stream, const Tensor& gradient, const Tensor& total_norm, double max_norm) const override {
    inner_.clip(stream, gradient, total_norm, max_norm);
  }
  void sgd(NativeStream stream, const Tensor& parameter, const Tensor& gradient, double rate) const override {
    inner_.sgd(stream, parameter, gradient, rate);
  }
  void adam(NativeStream stream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
            const Tensor& moment2, const Adam& how) const override {
    inner_.adam(stream, parameter, gradient, moment1, moment2, how);
  }
  void adamw(NativeStream stream, const Tensor& parameter, const Tensor& gradient, const Tensor& moment1,
             const Tensor& moment2, const Adam& how) const override {
    inner_.adamw(stream, parameter, gradient, moment1, moment2, how);
  }

 protected:
  const Kernels& inner_;
};

class CommunicatorWrapper : public Communicator {
 public:
  explicit CommunicatorWrapper(Communicator& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  std::span<const int> members() const override { return inner_.members(); }
  const FabricCapabilities& capabilities() const override { return inner_.capabilities(); }
  void run(Stream stream, const Collective& collective) override { inner_.run(stream, collective); }
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override {
    inner_.run_coalesced(stream, collectives);
  }
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override {
    return inner_.split(color, key, name);
  }

 protected:
  Communicator& inner_;
};

/// For wrappers that alter collectives. If the wrapper alters any collective of a coalesced call, `run` gets all
/// collectives of that call, one after the other.
class CollectiveWrapper : public CommunicatorWrapper {
 public:
  using CommunicatorWrapper::CommunicatorWrapper;
  void run_coalesced(Stream stream, std::span<const Collective> collectives) final {
    const bool alters_any = std::ranges::any_of(collectives, [this](const Collective& each) { return alters(each); });
    if (alters_any) Communicator::run_coalesced(stream, collectives);
    else inner_.run_coalesced(stream, collectives);
  }

 protected:
  virtual bool alters(const Collective& /*collective*/) const { return true; }
};

}  // namespace shardproof

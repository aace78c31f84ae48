// The two kinds of layers of this engine.
#pragma once

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "parameter.hpp"

namespace my_engine {

/// Forward computes y from x, and keeps x. Backward computes the slope of the loss by x from its slope by y.
class Layer {
 public:
  Layer(const Device& device, std::string path) : device_(device), path_(std::move(path)) {}
  virtual ~Layer() = default;
  virtual Floats forward(const Floats& x) = 0;
  virtual Floats backward(const Floats& slope) = 0;
  void forget() { x_ = {}; }

 protected:
  Floats activation(std::size_t count) const { return device_.allocate(SHARDPROOF_MEMORY_ACTIVATION, path_, count); }

  Device device_;
  std::string path_;
  Floats x_;
};

class Relu final : public Layer {
 public:
  using Layer::Layer;

  Floats forward(const Floats& x) override {
    x_ = x;
    const Floats y = activation(x.count);
    device_.submit(SHARDPROOF_WORK_FORWARD, path_, {x.all()}, {y.all()}, [&] {
      for (std::size_t i = 0; i < y.count; ++i) y.data[i] = std::max(x.data[i], 0.0f);
    });
    return y;
  }

  Floats backward(const Floats& slope) override {
    const Floats x = std::exchange(x_, {}), below = activation(x.count);
    device_.submit(SHARDPROOF_WORK_BACKWARD, path_, {x.all(), slope.all()}, {below.all()}, [&] {
      for (std::size_t i = 0; i < x.count; ++i) below.data[i] = x.data[i] > 0 ? slope.data[i] : 0;
    });
    return below;
  }
};

/// y = x Wᵀ + b. Its parameters are whole while it computes, and, where the plan says so, from its forward to its
/// backward.
class Linear final : public Layer {
 public:
  Linear(const Device& device, std::string path, std::size_t in, std::size_t out, Parameter& weight, Parameter* bias,
         bool reshards)
      : Layer(device, std::move(path)), in_(in), out_(out), weight_(weight), bias_(bias), reshards_(reshards) {}

  Floats forward(const Floats& x) override {
    x_ = x;
    const Floats w = weight_.gather(), b = bias_ != nullptr ? bias_->gather() : Floats{},
                 y = activation(x.count / in_ * out_);
    std::vector<shardproof_span> reads{x.all(), w.first(out_ * in_)};
    if (b) reads.push_back(b.first(out_));
    device_.submit(SHARDPROOF_WORK_FORWARD, path_, reads, {y.all()}, [&] {
      for (std::size_t i = 0; i < y.count; ++i) {
        const float *row = x.data + i / out_ * in_, *weights = w.data + i % out_ * in_;
        y.data[i] = std::inner_product(row, row + in_, weights, b ? b.data[i % out_] : 0.0f);
      }
    });
    if (reshards_) reshard();
    return y;
  }

  Floats backward(const Floats& slope) override {
    const Floats x = std::exchange(x_, {}), below = activation(x.count), w = weight_.gather();
    const Floats w_gradient = weight_.make_gradient(),
                 b_gradient = bias_ != nullptr ? bias_->make_gradient() : Floats{};
    std::vector<shardproof_span> writes{below.all(), w_gradient.all()};
    if (b_gradient) writes.push_back(b_gradient.all());
    device_.submit(SHARDPROOF_WORK_BACKWARD, path_, {x.all(), slope.all(), w.first(out_ * in_)}, writes, [&] {
      for (const Floats& sum : {below, w_gradient, b_gradient}) std::fill_n(sum.data, sum.count, 0.0f);
      for (std::size_t i = 0; i < slope.count; ++i) {
        const std::size_t row = i / out_ * in_, weights = i % out_ * in_;
        if (b_gradient) b_gradient.data[i % out_] += slope.data[i];
        for (std::size_t k = 0; k < in_; ++k) {
          w_gradient.data[weights + k] += slope.data[i] * x.data[row + k];
          below.data[row + k] += slope.data[i] * w.data[weights + k];
        }
      }
    });
    reshard();
    weight_.reduce();
    if (bias_ != nullptr) bias_->reduce();
    return below;
  }

 private:
  void reshard() {
    weight_.reshard();
    if (bias_ != nullptr) bias_->reshard();
  }

  std::size_t in_, out_;
  Parameter& weight_;
  Parameter* bias_;
  bool reshards_;
};

}  // namespace my_engine

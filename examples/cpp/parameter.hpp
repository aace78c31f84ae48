// A parameter that is dealt to all ranks: gathered before it is used, its gradient reduced behind that.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device.hpp"

namespace my_engine {

using Shape = std::vector<std::int64_t>;

std::size_t elements(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

/// What the harness is shown; `shape` is to live as long.
shardproof_tensor tensor(const Floats& floats, Shape& shape) {
  if (!floats) return {};  // undefined
  const DLTensor view{.data = floats.data,
                      .device = {kDLCPU, 0},
                      .ndim = static_cast<int>(shape.size()),
                      .dtype = floats.all().dtype,
                      .shape = shape.data(),
                      .strides = nullptr,
                      .byte_offset = 0};
  return {view, floats.buffer.get()};
}

/// The values that every engine begins with: small integers over a divisor.
float by_formula(std::size_t seed, std::size_t index, int divisor) {
  std::uint32_t u = static_cast<std::uint32_t>(seed) * 2654435761u + static_cast<std::uint32_t>(index) * 40503u + 12345u;
  u ^= u >> 15;
  u *= 2246822519u;
  u ^= u >> 13;
  return static_cast<float>(static_cast<int>(u % 9) - 4) / static_cast<float>(divisor);
}

/// A parameter is dealt to the ranks by rows, as many to each in turn; so the last ones may get fewer, or none. All shards are as long,
/// with zeros for the rows that are not there: then the shards of all ranks, one behind the other, are the parameter and some zeros.
class Parameter {
 public:
  Parameter(const Device& device, std::string name, std::string group, Shape shape, std::size_t seed, int divisor)
      : device_(device), name_(std::move(name)), group_(std::move(group)), shape_(std::move(shape)), shard_shape_(shape_) {
    const std::int64_t rows = (shape_[0] + device.ranks() - 1) / device.ranks();
    start_ = std::min(device.rank() * rows, shape_[0]);
    shard_shape_[0] = std::min(rows, shape_[0] - start_);
    const std::size_t width = elements(shape_) / static_cast<std::size_t>(shape_[0]), before = static_cast<std::size_t>(start_) * width;
    shard_ = device.allocate(SHARDPROOF_MEMORY_SHARD, name_, static_cast<std::size_t>(rows) * width);
    device.submit(SHARDPROOF_WORK_FILL, name_, {}, {shard_.all()}, [&] {
      for (std::size_t i = 0; i < shard_.count; ++i)
        shard_.data[i] = i < elements(shard_shape_) ? by_formula(seed, before + i, divisor) : 0;
    });
  }

  const Floats& gather() {
    if (whole_) return whole_;
    whole_ = shard_;  // of one rank; to ask for a collective there is an error
    if (device_.ranks() == 1) return whole_;
    whole_ = device_.allocate(SHARDPROOF_MEMORY_PARAMETER, name_, shard_.count * static_cast<std::size_t>(device_.ranks()));
    device_.run(SHARDPROOF_ALL_GATHER, SHARDPROOF_OP_NONE, shard_, whole_, group_);
    return whole_;
  }

  void reshard() { whole_ = {}; }

  /// To be filled, zeros and all.
  const Floats& make_gradient() {
    const std::size_t count = shard_.count * static_cast<std::size_t>(device_.ranks());
    return whole_gradient_ = device_.allocate(SHARDPROOF_MEMORY_GRADIENT, name_, count);
  }

  void reduce() {
    if (gradient_) throw std::runtime_error(name_ + ": to accumulate gradients is more than this engine can");
    gradient_ = std::exchange(whole_gradient_, {});
    if (device_.ranks() == 1) return;
    const Floats mean = device_.allocate(SHARDPROOF_MEMORY_SHARDED_GRADIENT, name_, shard_.count);
    device_.run(SHARDPROOF_REDUCE_SCATTER, SHARDPROOF_OP_AVG, gradient_, mean, group_);
    gradient_ = mean;
  }

  void step(float rate) {
    reshard();  // what is still whole is out of date now
    if (!gradient_) return;
    device_.submit(SHARDPROOF_WORK_OPTIMIZER, name_, {shard_.all(), gradient_.all()}, {shard_.all()}, [&] {
      for (std::size_t i = 0; i < shard_.count; ++i) shard_.data[i] -= rate * gradient_.data[i];
    });
  }

  void zero_grad() { gradient_ = {}; }

  /// Valid as long as the parameter, and until its next call.
  shardproof_parameter view() {
    return {.name = name_.c_str(),
            .shape = shape_.data(),
            .ndim = static_cast<int>(shape_.size()),
            .dim = 0,
            .start = start_,
            .shard = tensor(shard_, shard_shape_),
            .second = {},
            .gradient = tensor(gradient_, shard_shape_)};
  }

 private:
  Device device_;
  std::string name_, group_;
  Shape shape_, shard_shape_;
  std::int64_t start_ = 0;
  Floats shard_, whole_, whole_gradient_, gradient_;
};

}  // namespace my_engine

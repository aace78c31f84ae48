// A sharded parameter: gathered before a layer uses it; after that its gradient is reduced.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device.hpp"
#include "optimizer.hpp"

namespace my_engine {

using Shape = std::vector<std::int64_t>;

std::size_t elements(const Shape& shape) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

/// A tensor as the harness sees it. `shape` must live as long.
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
  std::uint32_t u =
      static_cast<std::uint32_t>(seed) * 2654435761u + static_cast<std::uint32_t>(index) * 40503u + 12345u;
  u ^= u >> 15;
  u *= 2246822519u;
  u ^= u >> 13;
  return static_cast<float>(static_cast<int>(u % 9) - 4) / static_cast<float>(divisor);
}

/// Which ranks share a group of parameters. Parameters without a group are whole on every rank.
struct Sharing {
  std::string tag = {};  // of collectives: the group's first module
  int ranks = 1, rank = 0;
};

/// A parameter is sharded by rows: all ranks have equally many, but the last ranks may have fewer, or none. Zeros pad
/// all shards to one length. So the shards of all ranks, one after the other, are the parameter and some zeros.
class Parameter {
 public:
  Parameter(const Device& device, std::string name, Sharing sharing, Shape shape, std::size_t seed, int divisor)
      : device_(device),
        name_(std::move(name)),
        sharing_(std::move(sharing)),
        shape_(std::move(shape)),
        shard_shape_(shape_) {
    const std::int64_t rows = (shape_[0] + sharing_.ranks - 1) / sharing_.ranks;
    start_ = std::min(sharing_.rank * rows, shape_[0]);
    shard_shape_[0] = std::min(rows, shape_[0] - start_);
    const std::size_t width = elements(shape_) / static_cast<std::size_t>(shape_[0]),
                      before = static_cast<std::size_t>(start_) * width;
    shard_ = device.allocate(SHARDPROOF_MEMORY_SHARD, name_, static_cast<std::size_t>(rows) * width);
    device.submit(SHARDPROOF_WORK_FILL, name_, {}, {shard_.all()}, [&] {
      for (std::size_t i = 0; i < shard_.count; ++i)
        shard_.data[i] = i < elements(shard_shape_) ? by_formula(seed, before + i, divisor) : 0;
    });
  }

  const Floats& gather() {
    if (whole_) return whole_;
    whole_ = shard_;  // on one rank, where a collective is an error
    if (sharing_.ranks == 1) return whole_;
    whole_ =
        device_.allocate(SHARDPROOF_MEMORY_PARAMETER, name_, shard_.count * static_cast<std::size_t>(sharing_.ranks));
    device_.run(SHARDPROOF_ALL_GATHER, SHARDPROOF_OP_NONE, shard_, whole_, sharing_.tag);
    return whole_;
  }

  void reshard() { whole_ = {}; }

  /// The caller fills it, padding and all.
  const Floats& make_gradient() {
    const std::size_t count = shard_.count * static_cast<std::size_t>(sharing_.ranks);
    return whole_gradient_ = device_.allocate(SHARDPROOF_MEMORY_GRADIENT, name_, count);
  }

  void reduce() {
    Floats mean = std::exchange(whole_gradient_, {});
    if (sharing_.ranks > 1) {
      const Floats whole = mean;
      mean = device_.allocate(SHARDPROOF_MEMORY_SHARDED_GRADIENT, name_, shard_.count);
      device_.run(SHARDPROOF_REDUCE_SCATTER, SHARDPROOF_OP_AVG, whole, mean, sharing_.tag);
    }
    if (!gradient_) gradient_ = mean;
    else add(mean);
  }

  void step(const Optimizer& optimizer) {
    reshard();  // a whole parameter is out of date now
    if (!gradient_) return;
    std::vector<shardproof_span> writes{shard_.all()};
    if (optimizer.is_adam) {
      if (!moments_[0]) make_moments();
      for (const Floats& moment : moments_) writes.push_back(moment.all());
    }
    std::vector<shardproof_span> reads = writes;
    reads.push_back(gradient_.all());
    ++steps_;
    device_.submit(SHARDPROOF_WORK_OPTIMIZER, name_, reads, writes, [&] {
      for (std::size_t i = 0; i < shard_.count; ++i) {
        if (optimizer.is_adam)
          optimizer.adam(steps_, shard_.data[i], gradient_.data[i], moments_[0].data[i], moments_[1].data[i]);
        else shard_.data[i] -= optimizer.rate * gradient_.data[i];
      }
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
  void add(const Floats& mean) {
    device_.submit(SHARDPROOF_WORK_REDUCE_COPY_OUT, name_, {mean.all(), gradient_.all()}, {gradient_.all()}, [&] {
      for (std::size_t i = 0; i < mean.count; ++i) gradient_.data[i] += mean.data[i];
    });
  }

  void make_moments() {
    for (Floats& moment : moments_) {
      moment = device_.allocate(SHARDPROOF_MEMORY_OPTIMIZER_STATE, name_, shard_.count);
      device_.submit(SHARDPROOF_WORK_FILL, name_, {}, {moment.all()},
                     [&] { std::fill_n(moment.data, moment.count, 0.0f); });
    }
  }

  Device device_;
  std::string name_;
  Sharing sharing_;
  Shape shape_, shard_shape_;
  std::int64_t start_ = 0;
  Floats shard_, whole_, whole_gradient_, gradient_, moments_[2];
  int steps_ = 0;
};

}  // namespace my_engine

// The contract of every device and every fabric, as ranked cases. The same cases run on the simulated device, on the
// CUDA backend's tables filled for the CPU, and on GPUs (`shardproof run --worker device_contract --device …`).
#pragma once

#include <shardproof.hpp>

#include <string>

#include "harness/device/platform.hpp"

namespace contract {

using namespace shardproof;

/// By its name in messages and in the parameters of cases.
DType dtype_named(const std::string& name);

/// A piece of work without costs of its own.
Work work(std::string label, std::vector<Tensor> reads, std::vector<Tensor> writes,
          std::function<void(const Kernels&, NativeStream)> run);

/// A copy on the device, made on the stream.
Tensor put(Device& device, Stream stream, const Tensor& host);
Tensor room(Device& device, Stream stream, const Tensor& like);
void copy(Device& device, Stream stream, const Tensor& to, const Tensor& from);
void fill(Device& device, Stream stream, const Tensor& to, double value, Nanoseconds cost = 0);

/// The tensor in host memory, after all work on the device has ended.
Tensor get(Device& device, const Tensor& tensor);

/// The number of elements that one rank contributes.
inline constexpr int part = 6;

/// A duration in ns that is long enough to catch code that does not wait for it.
inline constexpr Nanoseconds slow = 20'000'000;

}  // namespace contract

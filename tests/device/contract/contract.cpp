#include "tests/device/contract/contract.hpp"

#include <stdexcept>

#include "harness/runner/play/play_main.hpp"

namespace contract {

DType dtype_named(const std::string& name) {
  for (const DType dtype :
       {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) {
    if (to_string(dtype) == name) return dtype;
  }
  throw std::invalid_argument("no dtype " + name);
}

Work work(std::string label, std::vector<Tensor> reads, std::vector<Tensor> writes,
          std::function<void(const Kernels&, NativeStream)> run) {
  return {.kind = WorkKind::other,
          .label = std::move(label),
          .reads = std::move(reads),
          .writes = std::move(writes),
          .run = std::move(run)};
}

Tensor room(Device& device, Stream stream, const Tensor& like) {
  return device.empty(stream, like.dtype(), like.shape(), MemoryClass::other, "room");
}

void copy(Device& device, Stream stream, const Tensor& to, const Tensor& from) {
  std::vector<Tensor> reads;
  if (from.storage()->buffer() != 0) reads.push_back(from);
  device.submit(stream, work("copy", std::move(reads), {to},
                             [=](const Kernels& kernels, NativeStream on) { kernels.copy(on, to, from); }));
}

Tensor put(Device& device, Stream stream, const Tensor& host) {
  const Tensor there = room(device, stream, host);
  copy(device, stream, there, host);
  return there;
}

void fill(Device& device, Stream stream, const Tensor& to, double value, Nanoseconds cost) {
  Work filling = work("fill", {}, {to}, [=](const Kernels& kernels, NativeStream on) { kernels.fill(on, to, value); });
  filling.cost = cost;
  device.submit(stream, std::move(filling));
}

Tensor get(Device& device, const Tensor& tensor) {
  device.synchronize();
  device.host_access("get", {tensor}, {});
  return device.to_host(tensor);
}

}  // namespace contract

int main(int argc, char** argv) { return shardproof::play_main(argc, argv); }

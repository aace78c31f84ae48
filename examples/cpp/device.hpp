// The harness's functions, for code with exceptions and destructors. All work is on one stream, in the order of
// submission. So no work has to wait for other work.
#pragma once

#include <shardproof.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace my_engine {

/// Floats in the device's memory. The last copy gives the memory back, after all work that has been submitted by then.
struct Floats {
  std::shared_ptr<shardproof_buffer> buffer;
  float* data = nullptr;
  std::size_t count = 0, offset = 0;  // elements; bytes in the buffer

  explicit operator bool() const { return buffer != nullptr; }
  shardproof_span first(std::size_t elements) const { return {buffer.get(), offset, elements, {kDLFloat, 32, 1}}; }
  shardproof_span all() const { return first(count); }
};

/// The harness's functions. They throw if a call fails.
class Device {
 public:
  explicit Device(const shardproof_engine_context& engine_context)
      : harness_(*engine_context.harness), device_(engine_context.device), world_(engine_context.world) {}

  int rank() const { return harness_.group_rank(world_); }
  int ranks() const { return harness_.group_size(world_); }

  Floats allocate(shardproof_memory memory, const std::string& label, std::size_t count) const {
    shardproof_buffer* made = nullptr;
    check(harness_.allocate(device_, SHARDPROOF_COMPUTE_STREAM, count * sizeof(float), memory, label.c_str(), &made));
    const auto release = [&harness = harness_, device = device_](shardproof_buffer* buffer) {
      harness.release(device, SHARDPROOF_COMPUTE_STREAM, buffer);
    };
    return {{made, release}, static_cast<float*>(harness_.data(made)), count};
  }

  /// `compute` is called at once. The device learns what it reads and writes from the lists alone.
  void submit(shardproof_work_kind kind, const std::string& label, const std::vector<shardproof_span>& reads,
              const std::vector<shardproof_span>& writes, const std::function<void()>& compute,
              std::int64_t cost_ns = 0) const {
    struct Job {
      const std::function<void()>& compute;
      const shardproof_harness& harness;
    } job{compute, harness_};
    // Nothing may be thrown from here into the harness.
    const auto run = [](void* context, void*, shardproof_reply* reply) -> shardproof_status {
      const Job& self = *static_cast<Job*>(context);
      try {
        self.compute();
        return SHARDPROOF_OK;
      } catch (const std::exception& error) {
        self.harness.fail(reply, error.what());
      } catch (...) {
        self.harness.fail(reply, "an exception that is not a std::exception");
      }
      return SHARDPROOF_FAILED;
    };
    const shardproof_work work{.kind = kind,
                               .label = label.c_str(),
                               .reads = reads.data(),
                               .writes = writes.data(),
                               .read_count = reads.size(),
                               .write_count = writes.size(),
                               .cost_ns = cost_ns,
                               .run = run,
                               .context = &job};
    check(harness_.submit(device_, SHARDPROOF_COMPUTE_STREAM, &work));
  }

  void run(shardproof_collective_kind kind, shardproof_reduce_op op, const Floats& in, const Floats& out,
           const std::string& tag) const {
    const shardproof_collective collective{
        .kind = kind, .op = op, .factor = 1, .root = 0, .in = in.all(), .out = out.all(), .tag = tag.c_str()};
    check(harness_.run(world_, SHARDPROOF_COMPUTE_STREAM, &collective));
  }

  /// Memory that the harness lends: no copy releases it. It is always part of a buffer.
  Floats borrow(const shardproof_tensor& tensor) const {
    char* data = static_cast<char*>(tensor.view.data) + tensor.view.byte_offset;
    std::size_t count = 1;
    for (int d = 0; d < tensor.view.ndim; ++d) count *= static_cast<std::size_t>(tensor.view.shape[d]);
    const auto offset = static_cast<std::size_t>(data - static_cast<char*>(harness_.data(tensor.buffer)));
    return {{tensor.buffer, [](shardproof_buffer*) {}}, reinterpret_cast<float*>(data), count, offset};
  }

 private:
  void check(shardproof_status status) const {
    if (status != SHARDPROOF_OK) throw std::runtime_error(harness_.error(device_));
  }

  const shardproof_harness& harness_;
  shardproof_device* device_;
  shardproof_group* world_;
};

}  // namespace my_engine

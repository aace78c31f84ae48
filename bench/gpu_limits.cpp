// Measures the best performance of one GPU, and of NCCL between the GPUs of this machine, through the same tables as
// the backend. Other measurements on these GPUs can be compared with it. Prints one JSON document.
//
//   bench-gpu_limits BACKEND [--versions]
//
// Ends with 3 if the backend cannot be used, and with 1 if a measurement failed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "harness/device/cuda/gpu.hpp"
#include "harness/device/cuda/kernels/table.hpp"
#include "harness/device/cuda/vendor_module.hpp"

namespace {

using namespace shardproof;
using namespace shardproof::device::cuda;
using nlohmann::ordered_json;

constexpr int failed = 1, no_backend = 3;
constexpr std::chrono::seconds time_limit{30};
constexpr std::size_t kibibyte = 1024, mebibyte = kibibyte * kibibyte;

struct Effort {
  int samples;
  std::size_t copied;
};
constexpr Effort thorough{.samples = 201, .copied = 512 * mebibyte}, to_see_it_work{.samples = 5, .copied = mebibyte};

// The median and the tenths at both ends, or null without values.
ordered_json spread(std::vector<double> values, std::string_view unit) {
  if (values.empty()) return nullptr;
  std::ranges::sort(values);
  const auto at = [&](double part) {
    return values[static_cast<std::size_t>(std::lround(part * static_cast<double>(values.size() - 1)))];
  };
  return {{"unit", unit}, {"median", at(0.5)}, {"p10", at(0.1)}, {"p90", at(0.9)}, {"samples", values.size()}};
}

GpuContext alone_on(int ordinal) {
  return {.rank = ordinal,
          .ordinal = ordinal,
          .check = [] {},
          .give_up_at = [](control::Deadline now) { return now + time_limit; }};
}

template <class Action>
double host_ns(const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

class Measured {
 public:
  Measured(const VendorTables& vendor, int ordinal)
      : gpu_(vendor, alone_on(ordinal)), stream_(gpu_.create_stream("measured")) {}
  ~Measured() { gpu_.destroy_stream(stream_); }
  Measured(const Measured&) = delete;
  Measured& operator=(const Measured&) = delete;

  Gpu& gpu() { return gpu_; }
  StreamHandle stream() const { return stream_; }

  /// The time of the work that `issue` puts on the stream, between two events.
  double on_stream_ns(const std::function<void()>& issue) {
    EventHandle start = gpu_.record(stream_);
    issue();
    EventHandle end = gpu_.record(stream_);
    gpu_.await(end, [] { return std::string("what is measured does not end"); });
    std::int64_t ns = 0;
    gpu_.check(gpu_.cuda().event_elapsed_ns(&ns, start, end), "cudaEventElapsedTime");
    gpu_.give_back(start);
    gpu_.give_back(end);
    return static_cast<double>(ns);
  }
  void finish() {
    on_stream_ns([] {});
  }
  /// Launches a kernel that ends at once.
  void launch() { gpu_.check(gpu_.vendor().kernels->spin(0, 1, gpu_.abort_flag(), stream_), "spin", stream_); }
  void* allocate(std::size_t bytes) {
    void* memory = nullptr;
    gpu_.check(gpu_.cuda().malloc_async(&memory, bytes, stream_), "cudaMallocAsync", stream_);
    gpu_.check(gpu_.cuda().memset_async(memory, 0, bytes, stream_), "cudaMemsetAsync", stream_);
    return memory;
  }
  void release(void* memory) { gpu_.check(gpu_.cuda().free_async(memory, stream_), "cudaFreeAsync", stream_); }

 private:
  Gpu gpu_;
  StreamHandle stream_;
};

// Counts both directions, because a copy reads and writes each byte once. Bytes per ns are GB per s.
ordered_json copy_bandwidth(Measured& measured, const Effort& effort) {
  void* const from = measured.allocate(effort.copied);
  void* const to = measured.allocate(effort.copied);
  std::vector<double> rates;
  for (int i = 0; i < effort.samples; ++i) {
    const double ns = measured.on_stream_ns([&] {
      measured.gpu().check(
          measured.gpu().cuda().memcpy_async(to, from, effort.copied, CopyKind::device_to_device, measured.stream()),
          "cudaMemcpyAsync");
    });
    if (i > 0 && ns > 0) rates.push_back(2.0 * static_cast<double>(effort.copied) / ns);  // not the warm-up
  }
  measured.release(from);
  measured.release(to);
  const GpuProperties& properties = measured.gpu().properties();
  const double theoretical = 2e3 * properties.memory_clock_khz * properties.memory_bus_bits / 8 / 1e9;
  return {{"bytes", effort.copied},
          {"rate", spread(rates, "GB/s")},
          {"theoretical", theoretical > 0 ? ordered_json(theoretical) : ordered_json()},
          {"from", "twice the bytes that are copied; theoretical: twice the memory clock times the width of its bus"}};
}

ordered_json launches(Measured& measured, const Effort& effort) {
  constexpr int batch = 100;
  std::vector<double> calls, apart, round_trips;
  for (int i = 0; i < effort.samples; ++i) {
    const double between = measured.on_stream_ns([&] {
      calls.push_back(host_ns([&] {
                        for (int k = 0; k < batch; ++k) measured.launch();
                      }) /
                      batch);
    });
    apart.push_back(between / batch);
    round_trips.push_back(host_ns([&] {
      measured.launch();
      measured.finish();
    }));
  }
  return {{"call", spread(calls, "ns")},
          {"kernel_after_kernel", spread(apart, "ns")},
          {"launch_until_seen_to_have_ended", spread(round_trips, "ns")}};
}

ordered_json events(Measured& measured, const Effort& effort) {
  const CudaTable& cuda = measured.gpu().cuda();
  EventHandle event = measured.gpu().take_event();
  std::vector<double> records, queries, seen;
  for (int i = 0; i < effort.samples; ++i) {
    measured.finish();
    records.push_back(
        host_ns([&] { measured.gpu().check(cuda.event_record(event, measured.stream()), "cudaEventRecord"); }));
    seen.push_back(records.back() + host_ns([&] {
                     const auto end = std::chrono::steady_clock::now() + time_limit;
                     while (cuda.event_query(event) == cuda.not_ready) {
                       if (std::chrono::steady_clock::now() > end)
                         throw std::runtime_error("an event on an idle stream does not happen");
                     }
                   }));
    queries.push_back(host_ns([&] { measured.gpu().check(cuda.event_query(event), "cudaEventQuery"); }));
  }
  measured.gpu().give_back(event);
  return {{"record", spread(records, "ns")},
          {"query_of_what_has_happened", spread(queries, "ns")},
          {"record_until_seen", spread(seen, "ns")}};
}

// A rank of NCCL on its own GPU.
class Rank {
 public:
  Rank(const VendorTables& vendor, int size, const UniqueId& id, int rank) : measured_(vendor, rank) {
    settle(nccl().comm_init_rank(&comm_, size, &id, rank, "limits"), "ncclCommInitRankConfig");
  }
  ~Rank() {
    if (comm_ == nullptr) return;
    try {
      settle(nccl().comm_finalize(comm_), "ncclCommFinalize");
      nccl().comm_destroy(comm_);
    } catch (const std::exception&) {
      nccl().comm_abort(comm_);  // its peers may be gone
    }
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  std::vector<double> all_reduces(int samples) {
    constexpr std::size_t count = kibibyte / sizeof(float);
    void* const operand = measured_.allocate(kibibyte);
    std::vector<double> times;
    for (int i = 0; i < samples; ++i) {
      const double ns = measured_.on_stream_ns([&] {
        settle(nccl().all_reduce(operand, operand, count, NcclType::f32, NcclOp::sum, comm_, measured_.stream()),
               "ncclAllReduce");
      });
      if (i > 0) times.push_back(ns);  // the first one connects the ranks
    }
    measured_.release(operand);
    measured_.finish();
    return times;
  }

 private:
  const NcclTable& nccl() { return measured_.gpu().nccl(); }
  void settle(Status status, std::string_view operation) {
    const auto fail = [&](Status why) { measured_.gpu().fail_nccl(why, operation, nccl().last_error(comm_)); };
    const auto end = std::chrono::steady_clock::now() + time_limit;
    for (Status state = nccl().in_progress; status == 0 || status == nccl().in_progress;) {
      status = nccl().comm_get_async_error(comm_, &state);
      if (status == 0 && state == 0) return;
      if (status == 0 && state != nccl().in_progress) fail(state);
      if (std::chrono::steady_clock::now() > end)
        throw std::runtime_error(fmt::format("{} takes longer than {} s", operation, time_limit.count()));
      std::this_thread::yield();
    }
    fail(status);
  }

  Measured measured_;
  CommHandle comm_ = nullptr;
};

// One thread for each GPU, as NCCL allows within one process.
ordered_json all_reduce(const VendorTables& vendor, int gpus, const Effort& effort) {
  if (gpus < 2) return {{"skipped", fmt::format("it takes two GPUs, and this process sees {}", gpus)}};
  UniqueId id{};
  if (const Status status = vendor.nccl->get_unique_id(&id); status != 0) {
    throw std::runtime_error(fmt::format("ncclGetUniqueId: {}", vendor.nccl->error_text(status)));
  }
  std::vector<std::vector<double>> times(static_cast<std::size_t>(gpus));
  std::vector<std::exception_ptr> errors(times.size());
  {
    std::vector<std::jthread> threads;
    threads.reserve(times.size());
    for (int rank = 0; rank < gpus; ++rank) {
      threads.emplace_back([&, rank, at = static_cast<std::size_t>(rank)] {
        try {
          times[at] = Rank(vendor, gpus, id, rank).all_reduces(effort.samples);
        } catch (...) {
          errors[at] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
  return {{"ranks", gpus}, {"bytes", kibibyte}, {"on_stream", spread(times[0], "ns")}};
}

int gpus_of(const VendorTables& vendor) {
  int gpus = 0;
  if (const Status status = vendor.cuda->device_count(&gpus); status != 0) {
    throw std::runtime_error(fmt::format("cudaGetDeviceCount: {}", vendor.cuda->error_text(status)));
  }
  return gpus;
}

ordered_json versions(const VendorTables& vendor) {
  int driver = 0, runtime = 0, nccl = 0;
  vendor.cuda->driver_version(&driver);
  vendor.cuda->runtime_version(&runtime);
  vendor.nccl->version(&nccl);
  return {
      {"backend", vendor.name}, {"driver", driver}, {"runtime", runtime}, {"nccl", nccl}, {"gpus", gpus_of(vendor)}};
}

ordered_json measure(const VendorTables& vendor) {
  const Effort& effort = vendor.is_exact ? to_see_it_work : thorough;
  ordered_json found = versions(vendor);
  if (vendor.is_exact)
    found["meaningless"] =
        "the CPU stands for GPUs here: times on streams are virtual, and the others those of threads";
  {
    Measured measured(vendor, 0);
    const GpuProperties& properties = measured.gpu().properties();
    found["gpu"] = {{"name", properties.name},
                    {"uuid", properties.uuid},
                    {"bus_id", properties.bus_id},
                    {"clock_khz", properties.clock_khz},
                    {"memory_clock_khz", properties.memory_clock_khz},
                    {"memory_bus_bits", properties.memory_bus_bits}};
    found["copy_on_device"] = copy_bandwidth(measured, effort);
    found["launch"] = launches(measured, effort);
    found["event"] = events(measured, effort);
  }
  found["all_reduce"] = all_reduce(vendor, gpus_of(vendor), effort);
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> arguments(argv + 1, argv + argc);
  const bool only_versions = arguments.size() == 2 && arguments[1] == "--versions";
  if (arguments.empty() || (arguments.size() > 1 && !only_versions)) {
    fmt::print(stderr, "usage: {} BACKEND [--versions]\n", argv[0]);
    return 2;
  }
  const VendorTables* vendor = nullptr;
  try {
    vendor = &load_vendor(arguments[0]);
    fmt::print("{}\n", (only_versions ? versions(*vendor) : measure(*vendor)).dump(2));
    return std::fflush(stdout) == 0 ? 0 : failed;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", argv[0], error.what());
    return vendor == nullptr ? no_backend : failed;
  }
}

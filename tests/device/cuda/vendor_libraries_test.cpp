// Tests of the real libraries that need no GPU, and of the arithmetic before their calls.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/device/cuda/module/cupti_objection.hpp"
#include "harness/device/cuda/module/driver_objection.hpp"
#include "harness/device/cuda/module/nvml.hpp"
#include "harness/device/cuda/module/row_major.hpp"
#include "harness/device/cuda/module/tables.hpp"
#include "harness/device/cuda/vendor_module.hpp"

#ifdef SHARDPROOF_SANITIZES_ADDRESSES
#include <sanitizer/lsan_interface.h>
#endif

using namespace shardproof::device::cuda;
using Catch::Matchers::ContainsSubstring;

namespace {

UniqueId new_id() {
  UniqueId id{};
  REQUIRE(nccl_table().get_unique_id(&id) == 0);
  return id;
}

bool has_driver() {
  int version = 0;
  return cuda_table().driver_version(&version) == 0 && version != 0;
}

// A column-major product, as in BLAS: element (i, j) of a matrix is at i + j * leading.
int by_columns(bool transpose_first, bool transpose_second, int rows, int columns, int inner, const double* first,
               int first_leading, const double* second, int second_leading, double beta, double* out, int out_leading) {
  if (first_leading < std::max(1, transpose_first ? inner : rows) ||
      second_leading < std::max(1, transpose_second ? columns : inner) || out_leading < std::max(1, rows)) {
    return 7;  // CUBLAS_STATUS_INVALID_VALUE
  }
  const auto element_of = [](const double* matrix, int leading, bool transpose, int i, int j) {
    return transpose ? matrix[j + i * leading] : matrix[i + j * leading];
  };
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      double sum = 0;
      for (int k = 0; k < inner; ++k)
        sum += element_of(first, first_leading, transpose_first, i, k) *
               element_of(second, second_leading, transpose_second, k, j);
      double& element = out[i + j * out_leading];
      element = sum + (beta == 0 ? 0 : beta * element);
    }
  }
  return 0;
}

/// The index of row i and column j, if a row has so many elements.
std::size_t at(int i, int j, int row) {
  return static_cast<std::size_t>(i) * static_cast<std::size_t>(row) + static_cast<std::size_t>(j);
}

std::vector<double> counting(int count, double from) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) values.push_back(from + i);
  return values;
}

}  // namespace

TEST_CASE("a BLAS that stores by columns multiplies what is stored by rows") {
  for (const auto [m, n, inner] :
       {std::array{2, 3, 4}, {3, 2, 5}, {1, 4, 1}, {4, 1, 3}, {2, 2, 0}, {0, 3, 2}, {3, 0, 2}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const double beta : {0.0, 1.0}) {
          const auto a = counting(m * inner, 1), b = counting(inner * n, 100);
          auto c = counting(m * n, 1000), expected = c;
          for (int i = 0; i < m; ++i) {
            for (int j = 0; j < n; ++j) {
              double sum = 0;
              for (int k = 0; k < inner; ++k) {
                sum += a.at(at(transpose_a ? k : i, transpose_a ? i : k, transpose_a ? m : inner)) *
                       b.at(at(transpose_b ? j : k, transpose_b ? k : j, transpose_b ? inner : n));
              }
              double& element = expected.at(at(i, j, n));
              element = sum + beta * element;
            }
          }
          CAPTURE(m, n, inner, transpose_a, transpose_b, beta);
          CHECK(multiply_row_major(by_columns, transpose_a, transpose_b, m, n, inner, a.data(), b.data(), beta,
                                   c.data()) == 0);
          CHECK(c == expected);
        }
      }
    }
  }
}

TEST_CASE("an unusable driver is reported with what was found and what to do") {
  const auto objection = [](auto spoil) {
    DriverState state{.driver_version = 12080,
                      .runtime_version = 12040,
                      .gpus = 2,
                      .status = 0,
                      .status_name = {},
                      .status_text = {}};
    spoil(state);
    return driver_objection(state);
  };
  CHECK(objection([](auto&) {}).empty());
  CHECK(objection([](auto& state) { state.driver_version = 12000; }).empty());  // the same major version
  CHECK(objection([](auto& state) { state.driver_version = 13010; }).empty());
  CHECK(objection([](auto& state) { state.driver_version = 0; }) ==
        "there is no NVIDIA driver here: its libcuda.so.1 was not found. Install a driver for CUDA 12.0 or later. "
        "In a container, start docker with --gpus all");
  CHECK(objection([](auto& state) { state.driver_version = 11080, state.status = 35; }) ==
        "the NVIDIA driver here is for CUDA 11.8, but this build uses CUDA 12.4 and needs a driver for CUDA 12.0 or "
        "later: install a newer driver, or build with an older toolkit");
  CHECK(objection([](auto& state) {
          state.status = 802, state.status_name = "cudaErrorSystemNotReady", state.status_text = "not yet";
        }) ==
        "the NVIDIA driver here is for CUDA 12.8 and cannot count the GPUs, cudaErrorSystemNotReady (802): not yet; "
        "run nvidia-smi for details");
  CHECK(objection([](auto& state) { state.gpus = 0; }) ==
        "the NVIDIA driver here is for CUDA 12.8 and shows no GPU to this process; check CUDA_VISIBLE_DEVICES");
}

TEST_CASE(
    "the module fits this program: it gives its tables where there is a driver, and the reason where there is none") {
  std::string refusal;
  try {
    const VendorTables& tables = load_vendor(REAL_MODULE);
    CHECK(std::string(tables.name) == "CUDA");
    CHECK_FALSE(tables.is_exact);
  } catch (const std::runtime_error& error) {
    refusal = error.what();
  }
  CHECK(refusal.empty() == has_driver());
  if (has_driver()) return;
  CHECK_THAT(refusal, ContainsSubstring("libshardproof_cuda.so: there is no NVIDIA driver here"));
  CHECK(refusal.find('\n') == std::string::npos);
}

TEST_CASE("versions of CUDA and NCCL can be read without a GPU") {
  int runtime = 0, nccl = 0, driver = -1;
  CHECK(cuda_table().runtime_version(&runtime) == 0);
  CHECK(runtime >= 12000);
  CHECK(cuda_table().driver_version(&driver) == 0);
  CHECK(driver >= 0);
  CHECK(nccl_table().version(&nccl) == 0);
  CHECK(nccl >= 22200);
}

TEST_CASE("errors have names and texts, and there is one for every status") {
  CHECK(std::string(cuda_table().error_name(cuda_table().not_ready)) == "cudaErrorNotReady");
  CHECK(cuda_table().error_text(cuda_table().not_ready) != nullptr);
  CHECK(std::string(cuda_table().error_name(35)) == "cudaErrorInsufficientDriver");
  CHECK(cuda_table().error_name(-1) != nullptr);
}

TEST_CASE("the CUDA runtime reports an error once, and the next caller does not get it again") {
  if (!has_driver()) SKIP("without a driver the runtime says so in every call");
  CHECK(cuda_table().set_device(1 << 20) != 0);
  CHECK(cuda_table().peek_at_last_error() == 0);
}

TEST_CASE("NVML supplies what CUDA does not report, and the rest is unknown") {
  const Nvml nvml(NVML_STAND_IN);
  const GpuState idle = nvml.state("GPU-0"), hot = nvml.state("GPU-1"), mute = nvml.state("GPU-2"),
                 absent = nvml.state("GPU-9");
  CHECK(idle.clock_khz == 1'200'000);
  CHECK(idle.memory_clock_khz == 2'600'000);
  CHECK(idle.slowed_by == 1);
  CHECK(hot.slowed_by == (slowed_by_heat_software | slowed_by_heat_hardware));
  for (const GpuState& unknown : {mute, absent}) {
    CHECK(unknown.clock_khz == 0);
    CHECK(unknown.slowed_by == -1);
  }
  CHECK(nvml.nvlink("GPU-0", "GPU-1") == 1);
  CHECK(nvml.nvlink("GPU-0", "GPU-2") == 0);
  CHECK(nvml.nvlink("GPU-0", "GPU-9") == -1);
  const Nvml again(NVML_STAND_IN);  // it can be begun once only
  CHECK(again.nvlink("GPU-0", "GPU-1") == -1);
  const Nvml none("libno-such-nvml.so.1");
  CHECK(none.state("GPU-0").slowed_by == -1);
}

TEST_CASE("without a driver nothing is known of peers and clocks, and nothing crashes") {
  if (has_driver()) SKIP("there is a driver");
  PeerProperties peer{};
  CHECK(cuda_table().peer_properties(0, 1, &peer) != 0);
  CHECK(peer.can_access == -1);
  GpuState state{};
  CHECK(cuda_table().device_state(0, &state) == 0);
  CHECK(state.clock_khz == 0);
  CHECK(state.slowed_by == -1);
}

TEST_CASE("ids of communicators are made without a GPU, each its own") {
  const UniqueId one = new_id(), two = new_id();
  CHECK(std::memcmp(&one, &two, sizeof one) != 0);
}

TEST_CASE("NCCL refuses a null communicator, and does not crash") {
  const NcclTable& nccl = nccl_table();
  float number = 1;
  Status state = 0;
  NcclOp op{};
  const std::size_t count = 1;
  CHECK(nccl.comm_get_async_error(nullptr, &state) != 0);
  CHECK(nccl.red_op_create_premul_sum(&op, 0.5, NcclType::bf16, nullptr) != 0);
  CHECK(nccl.red_op_destroy(NcclOp{5}, nullptr) != 0);
  CHECK(nccl.all_gather(&number, &number, count, NcclType::f32, nullptr, nullptr) != 0);
  CHECK(nccl.reduce_scatter(&number, &number, count, NcclType::f32, NcclOp::sum, nullptr, nullptr) != 0);
  CHECK(nccl.all_reduce(&number, &number, count, NcclType::f32, NcclOp::sum, nullptr, nullptr) != 0);
  CHECK(nccl.broadcast(&number, &number, count, NcclType::f32, 0, nullptr, nullptr) != 0);
  CHECK(nccl.send(&number, count, NcclType::f32, 0, nullptr, nullptr) != 0);
  CHECK(nccl.recv(&number, count, NcclType::f32, 0, nullptr, nullptr) != 0);
  // These have nothing to do then; of a group of nothing, NCCL 2.28 forgets to free what it was to be run by.
#ifdef SHARDPROOF_SANITIZES_ADDRESSES
  const __lsan::ScopedDisabler not_ours;
#endif
  nccl.comm_finalize(nullptr);
  nccl.comm_destroy(nullptr);
  nccl.comm_abort(nullptr);
  CHECK(nccl.group_start() == 0);
  CHECK(nccl.group_end() == 0);
  const char* const words = nccl.last_error(nullptr);
  REQUIRE(words != nullptr);
  CHECK_FALSE(std::string(words).empty());
  CHECK(std::string(nccl.error_text(nccl.in_progress)) == "NCCL operation in progress");
  CHECK_THAT(nccl.error_text(nccl.remote_error), ContainsSubstring("remote process"));
}

TEST_CASE("a communicator that cannot be created is an error, and its handle stays null") {
  if (has_driver()) SKIP("there is a driver here");
  const UniqueId id = new_id();
  CommHandle comm = nullptr;
  const Status status = nccl_table().comm_init_rank(&comm, 1, &id, 0, "world");
  CHECK(status != 0);
  CHECK(status != nccl_table().in_progress);
  CHECK(comm == nullptr);
}

TEST_CASE("cuBLAS without a GPU is an error with a name") {
  BlasHandle handle = nullptr;
  const Status status = cublas_table().create(&handle);
  if (has_driver()) {
    CHECK(status == 0);
    CHECK(cublas_table().destroy(handle) == 0);
  } else {
    CHECK(std::string(cublas_table().error_name(status)) == "CUBLAS_STATUS_NOT_INITIALIZED");
    CHECK(handle == nullptr);
  }
}

TEST_CASE("an unusable CUPTI is reported with what was found and what to do") {
  CuptiState state{.name = "libcupti.so.13", .version = 130001, .built_with = 130001};
  CHECK(cupti_objection(state).empty());
  state.version = 130100;
  CHECK(cupti_objection(state).empty());
  state.version = 130000;
  CHECK(cupti_objection(state) ==
        "the libcupti.so.13 here has version 130000, older than the 130001 of this build, so its records may differ: "
        "install a newer one");
  state.lacks = "cuptiActivityFlushAll";
  CHECK(cupti_objection(state) ==
        "the libcupti.so.13 here has no cuptiActivityFlushAll: it is not NVIDIA's CUPTI, or an unsupported version");
  state.loader_says = "libcupti.so.13: cannot open shared object file";
  CHECK(cupti_objection(state) ==
        "there is no CUPTI here: libcupti.so.13: cannot open shared object file. No driver includes it: install the "
        "CUDA Toolkit or Python's nvidia-cuda-cupti, and add its directory to LD_LIBRARY_PATH");
}

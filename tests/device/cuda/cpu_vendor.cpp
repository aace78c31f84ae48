#include "tests/device/cuda/cpu_vendor.hpp"

#include "tests/device/cuda/cpu_kernel_table.hpp"
#include "tests/device/cuda/cpu_launcher.hpp"
#include "tests/device/cuda/cpu_nccl.hpp"
#include "tests/device/cuda/cpu_runtime.hpp"

namespace shardproof::device::cuda::cpu {

namespace {

struct Blas {
  StreamHandle stream = nullptr;
};

Status blas_create(BlasHandle* handle) {
  *handle = new Blas;
  return 0;
}

Status blas_destroy(BlasHandle handle) {
  delete static_cast<Blas*>(handle);
  return 0;
}

Status blas_set_stream(BlasHandle handle, StreamHandle stream) {
  static_cast<Blas*>(handle)->stream = stream;
  return 0;
}

template <class T>
Status gemm(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner, const T* a, const T* b,
            bodies::Computed<T> beta, T* c) {
  cpu::launch(static_cast<Blas*>(handle)->stream, 0,
              [=] { multiply_on_host(transpose_a, transpose_b, m, n, inner, a, b, beta, c); });
  return 0;
}

const char* blas_error_name(Status status) {
  return status == 0 ? "CUBLAS_STATUS_SUCCESS" : "an error that was planted";
}

}  // namespace

const VendorTables& vendor() {
  static constexpr KernelTable kernels = kernel_table<Loops>();
  static constexpr CublasTable cublas{.create = blas_create,
                                      .destroy = blas_destroy,
                                      .set_stream = blas_set_stream,
                                      .sgemm = gemm<float>,
                                      .dgemm = gemm<double>,
                                      .bf16gemm = gemm<bodies::Bf16>,
                                      .f16gemm = gemm<bodies::F16>,
                                      .error_name = blas_error_name};
  static const VendorTables tables{.version = VendorTables::current_version,
                                   .bytes = vendor_table_bytes,
                                   .name = "CUDA on the CPU",
                                   .is_exact = true,
                                   .cuda = &runtime(),
                                   .cublas = &cublas,
                                   .nccl = &nccl(),
                                   .kernels = &kernels,
                                   .activity = [](const char**) { return &activity(); }};
  return tables;
}

}  // namespace shardproof::device::cuda::cpu

#include <cublas_v2.h>

#include "harness/device/cuda/module/row_major.hpp"
#include "harness/device/cuda/module/tables.hpp"

namespace shardproof::device::cuda {

namespace {

cublasHandle_t native_blas(BlasHandle handle) { return static_cast<cublasHandle_t>(handle); }

// cuBLAS allocates the handle's workspace (32 MiB on Hopper) here and never later. So no product allocates, and no
// product waits for a stream that is held. All streams of the handle share the workspace. For that, cuBLAS promises the
// same bits from run to run only if a single stream is in use at a time. CUBLAS_WORKSPACE_CONFIG=:4096:8 extends the
// promise to all streams. Exact sums do not depend on it.
Status blas_create(BlasHandle* handle) {
  cublasHandle_t made = nullptr;
  if (const cublasStatus_t status = cublasCreate(&made); status != CUBLAS_STATUS_SUCCESS) return status;
  // No TF32, no sums in a narrower type than the operands, and no low-precision sums of parts that were summed in f32.
  const auto mode = static_cast<cublasMath_t>(CUBLAS_PEDANTIC_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  if (const cublasStatus_t status = cublasSetMathMode(made, mode); status != CUBLAS_STATUS_SUCCESS) {
    cublasDestroy(made);
    return status;
  }
  *handle = made;
  return CUBLAS_STATUS_SUCCESS;
}

Status blas_destroy(BlasHandle handle) { return cublasDestroy(native_blas(handle)); }

Status blas_set_stream(BlasHandle handle, StreamHandle stream) {
  return cublasSetStream(native_blas(handle), static_cast<cudaStream_t>(stream));
}

template <class T, class Scale, class Gemm>
Status product(const Gemm& gemm, BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner,
               const T* a, const T* b, Scale beta, T* c) {
  const auto by_columns = [&](bool transpose_first, bool transpose_second, int rows, int columns, int sum,
                              const T* first, int first_leading, const T* second, int second_leading, Scale keep,
                              T* out, int out_leading) -> Status {
    const auto operation = [](bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; };
    const Scale alpha{1};
    return gemm(native_blas(handle), operation(transpose_first), operation(transpose_second), rows, columns, sum,
                &alpha, first, first_leading, second, second_leading, &keep, out, out_leading);
  };
  return multiply_row_major(by_columns, transpose_a, transpose_b, m, n, inner, a, b, beta, c);
}

/// cublasGemmEx for matrices of a single low-precision type, with the arguments of the other products.
auto gemm_in_f32(cudaDataType type) {
  return [type](cublasHandle_t handle, cublasOperation_t first_as, cublasOperation_t second_as, int rows, int columns,
                int sum, const float* alpha, const void* first, int first_leading, const void* second,
                int second_leading, const float* keep, void* out, int out_leading) {
    return cublasGemmEx(handle, first_as, second_as, rows, columns, sum, alpha, first, type, first_leading, second,
                        type, second_leading, keep, out, type, out_leading, CUBLAS_COMPUTE_32F_PEDANTIC,
                        CUBLAS_GEMM_DEFAULT);
  };
}

Status sgemm(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner, const float* a,
             const float* b, float beta, float* c) {
  return product(cublasSgemm, handle, transpose_a, transpose_b, m, n, inner, a, b, beta, c);
}

Status dgemm(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner, const double* a,
             const double* b, double beta, double* c) {
  return product(cublasDgemm, handle, transpose_a, transpose_b, m, n, inner, a, b, beta, c);
}

Status bf16gemm(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner, const bodies::Bf16* a,
                const bodies::Bf16* b, float beta, bodies::Bf16* c) {
  return product(gemm_in_f32(CUDA_R_16BF), handle, transpose_a, transpose_b, m, n, inner, a, b, beta, c);
}

Status f16gemm(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner, const bodies::F16* a,
               const bodies::F16* b, float beta, bodies::F16* c) {
  return product(gemm_in_f32(CUDA_R_16F), handle, transpose_a, transpose_b, m, n, inner, a, b, beta, c);
}

const char* blas_error_name(Status status) { return cublasGetStatusName(static_cast<cublasStatus_t>(status)); }

static_assert(CUBLAS_STATUS_SUCCESS == 0);

}  // namespace

const CublasTable& cublas_table() {
  static constexpr CublasTable table{.create = blas_create,
                                     .destroy = blas_destroy,
                                     .set_stream = blas_set_stream,
                                     .sgemm = sgemm,
                                     .dgemm = dgemm,
                                     .bf16gemm = bf16gemm,
                                     .f16gemm = f16gemm,
                                     .error_name = blas_error_name};
  return table;
}

}  // namespace shardproof::device::cuda

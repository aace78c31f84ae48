// The kernels on a CUDA device. Each checks its operands by the rules of the host kernels, then launches its work on
// the given stream. Tensors' data() are device addresses. The implementation of the tables runs the work: a GPU, or a
// test on the host.
//
// Results are those of cpu_kernels(), bit for bit, with three exceptions:
// - `matmul` has cuBLAS's sums, whose order is not specified. They are equal if every order gives the same, as with
//   exact sums. In low precision they are also sums in f32, rounded once.
// - On a GPU, exp, log and pow are CUDA's, which may differ in the last place. They are in softmax, cross entropy, and
//   norms of a power other than 1, 2 and infinity.
// - A NaN is a NaN, but may have another sign and payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "harness/device/cuda/vendor.hpp"
#include "harness/tensor/kernels.hpp"

namespace shardproof::device::cuda {

namespace bodies {
struct IndexError;
enum class IndexKind : std::uint32_t;
}  // namespace bodies
class Staging;

/// Throws std::out_of_range, with the text of the host kernels, if an index was out of range. The host calls it after
/// synchronizing, with its own address of the word. A caller that continues afterwards sets the word to zero first.
void check(const bodies::IndexError& error);

class CudaKernels final : public Kernels {
 public:
  /// Throws an error for a status that is not success, of "CUDA" or "cuBLAS", and names the requested kernel.
  using Failed = std::function<void(Status status, const char* library, const char* operation)>;

  /// Makes kernels for the current device. cuBLAS allocates here, and loads kernels at its first products, so no gate
  /// may be closed then.
  ///
  /// `index_error` is where `check` above finds the first index out of range. It is the device's address of memory that
  /// the host also sees. The memory is zero at first and must outlive the kernels. `staging` carries the copies from
  /// the host.
  CudaKernels(const VendorTables& tables, bodies::IndexError* index_error, Staging& staging, Failed failed);
  ~CudaKernels() override;
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

  // `copy` also copies between host and device, between equal dtypes. Host memory belongs to tensors without a buffer.
  // The device finds an index that is out of range; the host learns of it through `check`.
#define KERNEL(name, parameters, arguments) void name parameters const override;
#include "harness/tensor/kernel_list.inc"

  /// The number of kernels, copies and products put on streams so far; a product may be several kernels.
  std::uint64_t launches() const { return launches_; }

 private:
  void require_success(Status status, const char* library, const char* operation) const;
  template <class Launch, class Body>
  void launch(const char* operation, NativeStream stream, Launch kernel, const Body& body, std::int64_t count) const;
  void check_indices(const char* operation, NativeStream stream, const Tensor& indices, std::size_t limit,
                     bodies::IndexKind kind) const;
  void update(const char* operation, NativeStream stream, const Tensor& parameter, const Tensor& gradient,
              const Tensor& moment1, const Tensor& moment2, const Adam& how, bool decay_off_parameter) const;

  const KernelTable& kernels_;
  const CudaTable& cuda_;
  const CublasTable& cublas_;
  bodies::IndexError* index_error_;
  Staging& staging_;
  Failed failed_;
  BlasHandle blas_ = nullptr;
  mutable std::uint64_t launches_ = 0;
};

}  // namespace shardproof::device::cuda

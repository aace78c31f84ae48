// The CUDA backend's kernels, run on the host, against cpu_kernels().
#include <catch2/catch_get_random_seed.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeindex>
#include <typeinfo>
#include <utility>
#include <vector>

#include "harness/device/cuda/cuda_kernels.hpp"
#include "harness/device/cuda/staging.hpp"
#include "harness/tensor/elements.hpp"
#include "tests/device/cuda/cpu_kernel_table.hpp"
#include "tests/device/cuda/kernel_calls.hpp"

using namespace shardproof;
using namespace shardproof::device::cuda;

namespace {

constexpr Status injected = 719;

/// A stream of these tests: what has passed through it.
struct Launches {
  int before_failure = -1;  ///< so many succeed, the next one fails; -1: all succeed
  std::set<std::type_index> bodies;

  bool fails() { return before_failure-- == 0; }
};

Launches& launches_of(StreamHandle stream) { return *static_cast<Launches*>(stream); }

struct TestLauncher : HostLauncher {
  template <class Body> static Status launch(const Body& body, std::int64_t count, StreamHandle stream) {
    if (launches_of(stream).fails()) return injected;
    launches_of(stream).bodies.insert(typeid(Body));
    return HostLauncher::launch(body, count, stream);
  }
};

/// Memory of a pretended device: on the host, but with a buffer's number.
class PretendedStorage final : public Storage {
 public:
  explicit PretendedStorage(std::size_t bytes) : PretendedStorage(std::make_unique<std::byte[]>(bytes), bytes) {}

 private:
  PretendedStorage(std::unique_ptr<std::byte[]> memory, std::size_t bytes)
      : Storage(memory.get(), bytes, 1), memory_(std::move(memory)) {}
  std::unique_ptr<std::byte[]> memory_;
};

Tensor on_device(const Tensor& host) {
  if (!host.defined()) return {};
  const Tensor copy(std::make_shared<PretendedStorage>(host.bytes()), host.dtype(), host.shape());
  if (host.bytes() != 0) std::memcpy(copy.data(), host.data(), host.bytes());
  return copy;
}

Operands on_host(const Operands& operands) {
  Operands copies;
  std::ranges::transform(operands, std::back_inserter(copies), [](const Tensor& operand) { return operand.clone(); });
  return copies;
}

Operands on_device(const Operands& operands) {
  Operands copies;
  std::ranges::transform(operands, std::back_inserter(copies),
                         [](const Tensor& operand) { return on_device(operand); });
  return copies;
}

struct Failure {
  Status status;
  std::string library, operation;
};

template <class T>
Status gemm(BlasHandle handle, bool transpose_a, bool transpose_b, int m, int n, int inner, const T* a, const T* b,
            bodies::Computed<T> beta, T* c) {
  if (launches_of(static_cast<HostBlas*>(handle)->stream).fails()) return injected;
  return host_gemm(handle, transpose_a, transpose_b, m, n, inner, a, b, beta, c);
}

/// CudaKernels on the host, with what they need around them.
class Bench {
 public:
  Bench() {
    cublas_.set_stream = [](BlasHandle handle, StreamHandle stream) -> Status {
      return launches_of(stream).fails() ? injected : cpu_cublas_table.set_stream(handle, stream);
    };
    cublas_.sgemm = gemm<float>;
    cublas_.dgemm = gemm<double>;
    cublas_.bf16gemm = gemm<bodies::Bf16>;
    cublas_.f16gemm = gemm<bodies::F16>;
    cuda_.memcpy_async = [](void* to, const void* from, std::size_t bytes, CopyKind, StreamHandle stream) -> Status {
      if (launches_of(stream).fails()) return injected;
      std::memcpy(to, from, bytes);
      return 0;
    };
  }

  NativeStream stream() { return &launches; }
  bodies::IndexError take_index_error() { return std::exchange(index_error_, {}); }

  Launches launches;

 private:
  KernelTable kernel_table_ = kernel_table<TestLauncher>();
  CublasTable cublas_ = cpu_cublas_table;
  CudaTable cuda_{};
  bodies::IndexError index_error_{};
  Staging staging_{cuda_, {}, {}};
  VendorTables tables_{
      VendorTables::current_version, sizeof(VendorTables), "test", true, &cuda_, &cublas_, nullptr, &kernel_table_};

 public:
  CudaKernels kernels{tables_, &index_error_, staging_, [](Status status, const char* library, const char* operation) {
                        throw Failure{status, library, operation};
                      }};
};

template <class T> bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>) return false;
  else return std::isnan(tensor::elements::convert<double>(value));
}

/// Same bits; of two NaNs the arithmetic's own choice of sign and payload does not count unless `strict`.
std::string difference(const Tensor& expected, const Tensor& actual, bool strict) {
  if (!expected.defined()) return actual.defined() ? "defined" : "";
  const Tensor found = actual.clone();
  if (!strict) {
    tensor::elements::visit(found.dtype(), [&](auto type) {
      using T = typename decltype(type)::type;
      const auto want = expected.values<T>();
      const auto have = found.values<T>();
      for (std::size_t i = 0; i < have.size(); ++i) {
        if (is_nan(want[i]) && is_nan(have[i])) have[i] = want[i];
      }
    });
  }
  return first_difference(expected, found);
}

void compare(const KernelCall& call, Bench& bench) {
  const Operands host = on_host(call.operands), device = on_device(call.operands);
  call.make(cpu_kernels(), nullptr, host);
  call.make(bench.kernels, bench.stream(), device);
  for (std::size_t i = 0; i < host.size(); ++i) {
    const std::string differs = difference(host[i], device[i], call.converts);
    INFO("seed " << Catch::getSeed() << ": " << call.method << " " << call.detail << ", operand " << i << ": "
                 << differs);
    CHECK(differs.empty());
  }
}

std::string refusal(const KernelCall& call, const Kernels& kernels, NativeStream stream, const Operands& operands) {
  try {
    call.make(kernels, stream, operands);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("cuda: kernels on elements give the host's bits in every pair of dtypes") {
  Bench bench;
  for (const KernelCall& call : element_calls(Catch::getSeed())) compare(call, bench);
}

TEST_CASE("cuda: every f16 and bf16 is converted as on the host, and every result of a conversion to them") {
  Bench bench;
  for (const DType narrow : {DType::f16, DType::bf16}) {
    const Tensor all = Tensor::host(narrow, {65536});
    for (std::size_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<std::uint16_t>(i);
      std::memcpy(all.data() + 2 * i, &bits, sizeof bits);
    }
    // Every value, and what lies in the middle between it and the next one, and next to that.
    const Tensor wide = Tensor::host(DType::f64, {65536});
    cpu_kernels().copy(nullptr, wide, all);
    const Tensor middles = Tensor::host(DType::f64, {std::int64_t{3} * 65535});
    for (std::size_t i = 0; i < 65535; ++i) {
      const double middle = (wide.values<double>()[i] + wide.values<double>()[i + 1]) / 2;
      middles.values<double>()[3 * i] = middle;
      middles.values<double>()[3 * i + 1] = std::nextafter(middle, 1e300);
      middles.values<double>()[3 * i + 2] = std::nextafter(middle, -1e300);
    }
    const auto copy = [](auto& k, auto s, const Operands& o) { k.copy(s, o[0], o[1]); };
    for (const DType other :
         {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) {
      compare({"copy", "all 16 bits", {Tensor::host(other, {65536}), all}, copy, true}, bench);
    }
    compare({"copy", "middles", {Tensor::host(narrow, middles.shape()), middles}, copy, true}, bench);
    const Tensor single = Tensor::host(DType::f32, middles.shape());
    cpu_kernels().copy(nullptr, single, middles);
    compare({"copy", "middles in f32", {Tensor::host(narrow, middles.shape()), single}, copy, true}, bench);
  }
}

TEST_CASE("cuda: kernels on floats give the host's bits, in low precision too") {
  Bench bench;
  for (const KernelCall& call : float_calls(Catch::getSeed())) compare(call, bench);
}

TEST_CASE("cuda: the calls of these tests launch every kernel of the table") {
  Bench bench;
  for (const auto& calls : {element_calls(1), float_calls(1)}) {
    for (const KernelCall& call : calls) {
      const Operands device = on_device(call.operands);
      call.make(bench.kernels, bench.stream(), device);
    }
  }
#define SHARDPROOF_WAS_LAUNCHED(name, Body)                      \
  {                                                              \
    INFO(#name);                                                 \
    CHECK(bench.launches.bodies.contains(typeid(bodies::Body))); \
  }
  SHARDPROOF_CUDA_KERNELS(SHARDPROOF_WAS_LAUNCHED)
#undef SHARDPROOF_WAS_LAUNCHED
#define SHARDPROOF_WAS_LAUNCHED(name, Body)                                    \
  {                                                                            \
    INFO(#name);                                                               \
    CHECK(bench.launches.bodies.contains(typeid(bodies::Body<float>)));        \
    CHECK(bench.launches.bodies.contains(typeid(bodies::Body<double>)));       \
    CHECK(bench.launches.bodies.contains(typeid(bodies::Body<bodies::Bf16>))); \
    CHECK(bench.launches.bodies.contains(typeid(bodies::Body<bodies::F16>)));  \
  }
  SHARDPROOF_CUDA_FLOAT_KERNELS(SHARDPROOF_WAS_LAUNCHED)
#undef SHARDPROOF_WAS_LAUNCHED
#define SHARDPROOF_WAS_LAUNCHED(name, Body)                              \
  {                                                                      \
    INFO(#name);                                                         \
    CHECK(bench.launches.bodies.contains(typeid(bodies::Body<float>)));  \
    CHECK(bench.launches.bodies.contains(typeid(bodies::Body<double>))); \
  }
  SHARDPROOF_CUDA_REAL_KERNELS(SHARDPROOF_WAS_LAUNCHED)
#undef SHARDPROOF_WAS_LAUNCHED
}

TEST_CASE("cuda: a launch that fails is reported with its status, library and operation, whichever it is") {
  Bench bench;
  std::set<std::string> failed;
  for (const auto& calls : {element_calls(1), float_calls(1)}) {
    for (const KernelCall& call : calls) {
      const Operands device = on_device(call.operands);
      for (int before = 0;; ++before) {
        bench.launches.before_failure = before;
        bool reported = false;
        try {
          call.make(bench.kernels, bench.stream(), device);
        } catch (const Failure& failure) {
          reported = true;
          failed.insert(call.method);
          INFO(call.method << " " << call.detail);
          CHECK(failure.status == injected);
          CHECK(failure.operation == call.method);
          CHECK((failure.library == "CUDA" || (failure.library == "cuBLAS" && call.method == "matmul")));
        }
        if (!reported) break;
        REQUIRE(before < 10);
      }
    }
  }
  CHECK(failed.size() == 31);  // the methods of Kernels
}

TEST_CASE("cuda: host and device memory are copied in one dtype, and a failure is reported") {
  Bench bench;
  const Tensor host = any_bits(DType::bf16, {3, 5}, 1), back = Tensor::host(DType::bf16, {3, 5});
  const Tensor device = on_device(Tensor::host(DType::bf16, {15})), wide = on_device(Tensor::host(DType::f32, {15}));
  bench.kernels.copy(bench.stream(), device, host);
  bench.kernels.copy(bench.stream(), back, device);
  CHECK(back == host);
  CHECK(bench.launches.bodies.empty());
  CHECK_THROWS_AS(bench.kernels.copy(bench.stream(), wide, host), std::invalid_argument);
  CHECK_THROWS_AS(bench.kernels.copy(bench.stream(), back, wide), std::invalid_argument);
  CHECK_THROWS_AS(bench.kernels.copy(bench.stream(), back, host), std::invalid_argument);
  bench.launches.before_failure = 0;
  CHECK_THROWS_AS(bench.kernels.copy(bench.stream(), device, host), Failure);
  bench.kernels.copy(bench.stream(), on_device(Tensor::host(DType::f32, {0})), Tensor::host(DType::f32, {0}));
}

TEST_CASE("cuda: operands that do not fit are refused in the words of the host's kernels, and host memory too") {
  Bench bench;
  int refused = 0, in_host_memory = 0;
  for (const auto& calls : {element_calls(1), float_calls(1)}) {
    for (const KernelCall& call : calls) {
      // One operand at a time gets lost, loses or gains an element, has another dtype, or stays on the host.
      for (std::size_t i = 0; i < call.operands.size(); ++i) {
        const Tensor& right = call.operands[i];
        if (!right.defined() || right.numel() == 0 || right.numel() > 100) continue;
        const DType other = right.dtype() == DType::f32 ? DType::f64 : DType::f32;
        for (const Tensor& wrong : {Tensor{}, Tensor::host(right.dtype(), {right.numel() + 1}),
                                    Tensor::host(DType::i16, right.shape()), Tensor::host(other, right.shape())}) {
          Operands host = on_host(call.operands), device = on_device(call.operands);
          host[i] = wrong;
          device[i] = on_device(wrong);
          INFO(call.method << " " << call.detail << ", operand " << i << " is " << to_string(wrong));
          const std::string expected = refusal(call, cpu_kernels(), nullptr, host);
          CHECK(refusal(call, bench.kernels, bench.stream(), device) == expected);
          refused += expected == "none" ? 0 : 1;
        }
        Operands device = on_device(call.operands);
        device[i] = right.clone();
        INFO(call.method << " " << call.detail << ", operand " << i << " is in host memory");
        const std::string text = refusal(call, bench.kernels, bench.stream(), device);
        if (call.method == "copy" && device[0].dtype() == device[1].dtype()) continue;
        CHECK(text.starts_with(call.method + ": "));
        CHECK(text.find("host") != std::string::npos);
        ++in_host_memory;
      }
    }
  }
  CHECK(refused > 1000);
  CHECK(in_host_memory > 1000);
}

TEST_CASE("cuda: scalars that make no sense are refused in the words of the host's kernels") {
  Bench bench;
  const Tensor host = Tensor::host(DType::f32, {1}), device = on_device(host);
  const std::vector<KernelCall> calls{
      {"power_sum", "", {}, [](auto& k, auto s, const Operands& o) { k.power_sum(s, o[0], o[0], 0, false); }},
      {"power_root", "", {}, [](auto& k, auto s, const Operands& o) { k.power_root(s, o[0], o[0], -1); }},
      {"adam", "", {}, [](auto& k, auto s, const Operands& o) { k.adam(s, o[0], o[0], o[0], o[0], {.step = 0}); }},
      {"adamw", "", {}, [](auto& k, auto s, const Operands& o) { k.adamw(s, o[0], o[0], o[0], o[0], {.step = 0}); }},
  };
  for (const KernelCall& call : calls) {
    const std::string expected = refusal(call, cpu_kernels(), nullptr, {host});
    CHECK(expected.starts_with(call.method + ": "));
    CHECK(refusal(call, bench.kernels, bench.stream(), {device}) == expected);
  }
}

TEST_CASE("cuda: an index out of range is named as on the host, the first one only, and touches nothing else") {
  constexpr std::int64_t rows = 4, length = 3;
  for (const std::int64_t wrong :
       {std::int64_t{-1}, length, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()}) {
    const Tensor ids = Tensor::of<std::int64_t>({rows}, std::vector<std::int64_t>{0, wrong, 7777, 2});
    const Tensor matrix = any_bits(DType::f64, {rows, length}, 1), table = any_bits(DType::f64, {length, length}, 1);
    const std::vector<KernelCall> calls{
        {"embedding",
         "",
         {matrix, table, ids},
         [](auto& k, auto s, const auto& o) { k.embedding(s, o[0], o[1], o[2]); }},
        {"embedding_backward",
         "",
         {table, matrix, ids},
         [](auto& k, auto s, const auto& o) { k.embedding_backward(s, {o[0]}, o[1], o[2]); }},
        {"cross_entropy",
         "",
         {Tensor::host(DType::f64, {1}), matrix, ids},
         [](auto& k, auto s, const auto& o) { k.cross_entropy(s, o[0], o[1], o[2]); }},
        {"cross_entropy_backward",
         "",
         {matrix, matrix, ids},
         [](auto& k, auto s, const auto& o) { k.cross_entropy_backward(s, o[0], o[1], o[2]); }},
    };
    for (const KernelCall& call : calls) {
      Bench bench;
      const Operands host = on_host(call.operands), device = on_device(call.operands);
      std::string expected, actual;
      try {
        call.make(cpu_kernels(), nullptr, host);
      } catch (const std::out_of_range& error) {
        expected = error.what();
      }
      call.make(bench.kernels, bench.stream(), device);
      try {
        check(bench.take_index_error());
      } catch (const std::out_of_range& error) {
        actual = error.what();
      }
      CHECK(expected.starts_with(call.method + ": "));
      CHECK(actual == expected);
      check(bench.take_index_error());  // nothing any more
      if (call.method == "embedding")
        CHECK(device[0].narrow(1, 2).clone() == matrix.narrow(1, 2));  // the rows of wrong ids, as they were
    }
  }
}

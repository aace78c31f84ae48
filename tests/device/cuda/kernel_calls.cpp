#include "tests/device/cuda/kernel_calls.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <utility>

#include "harness/tensor/elements.hpp"

namespace shardproof::device::cuda {
namespace {

constexpr std::array every_dtype{DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64,
                                 DType::i32, DType::i16, DType::i8,   DType::u8};

/// Sources of random operands in one dtype: ordinary numbers, and wild ones where asked.
class Source {
 public:
  Source(DType dtype, DType losses, bool wild, unsigned seed)
      : dtype_(dtype), losses_(losses), wild_(wild), random_(seed) {}

  Tensor draw(const Shape& shape) {
    const Tensor drawn = Tensor::host(DType::f64, shape);
    std::normal_distribution<double> ordinary(0, 2);
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr std::array special{
        0.0, -0.0, 1e-40, -1e-310, 3e38, -3e38, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()};
    for (double& value : drawn.values<double>()) {
      value = ordinary(random_);
      if (wild_ && random_() % 8 == 0) value = special[random_() % special.size()];
    }
    return in_dtype(drawn);
  }

  /// The tensor that receives a loss.
  Tensor loss(const Shape& shape) const { return Tensor::host(losses_, shape); }

  Tensor positive(const Shape& shape) {
    const Tensor drawn = Tensor::host(DType::f64, shape);
    std::uniform_real_distribution<double> ordinary(0.1, 3);
    for (double& value : drawn.values<double>()) value = ordinary(random_);
    return in_dtype(drawn);
  }

  Tensor indices(std::int64_t count, std::int64_t limit) {
    const Tensor drawn = Tensor::host(DType::i64, {count});
    for (std::int64_t& value : drawn.values<std::int64_t>())
      value = static_cast<std::int64_t>(random_() % static_cast<unsigned>(limit));
    return drawn;
  }

  std::string name() const {
    return fmt::format("{}{}{}", to_string(dtype_),
                       losses_ == dtype_ ? "" : fmt::format(", losses {}", to_string(losses_)), wild_ ? " wild" : "");
  }

 private:
  Tensor in_dtype(const Tensor& drawn) const {
    const Tensor result = Tensor::host(dtype_, drawn.shape());
    cpu_kernels().copy(nullptr, result, drawn);
    return result;
  }

  DType dtype_, losses_;
  bool wild_;
  std::mt19937 random_;
};

void add_element_wise(std::vector<KernelCall>& calls, Source& source, const Shape& shape) {
  const auto draw = [&] { return source.draw(shape); };
  const std::string detail = source.name() + " " + to_string(shape);
  calls.push_back(
      {"relu", detail, {draw(), draw()}, [](auto& k, auto s, const Operands& o) { k.relu(s, o[0], o[1]); }});
  calls.push_back({"relu_backward", detail, {draw(), draw(), draw()}, [](auto& k, auto s, const Operands& o) {
                     k.relu_backward(s, o[0], o[1], o[2]);
                   }});
  calls.push_back({"scale_by", detail, {draw(), draw(), source.draw({1})}, [](auto& k, auto s, const Operands& o) {
                     k.scale_by(s, o[0], o[1], o[2]);
                   }});
  calls.push_back({"scale_by", detail + " in place", {draw(), source.draw({})}, [](auto& k, auto s, const Operands& o) {
                     k.scale_by(s, o[0], o[0], o[1]);
                   }});
}

void add_optimizers(std::vector<KernelCall>& calls, Source& source, const Shape& shape) {
  const auto draw = [&] { return source.draw(shape); };
  const std::string detail = source.name() + " " + to_string(shape);
  calls.push_back({"clip", detail, {draw(), source.positive({1})}, [](auto& k, auto s, const Operands& o) {
                     k.clip(s, o[0], o[1], 0.7);
                   }});
  calls.push_back({"clip",
                   detail + " to more than the norm",
                   {draw(), source.positive({1})},
                   [](auto& k, auto s, const Operands& o) { k.clip(s, o[0], o[1], 100); }});
  calls.push_back(
      {"clip", detail + " by a wild norm", {draw(), source.draw({1})}, [](auto& k, auto s, const Operands& o) {
         k.clip(s, o[0], o[1], 0.7);
       }});
  calls.push_back(
      {"sgd", detail, {draw(), draw()}, [](auto& k, auto s, const Operands& o) { k.sgd(s, o[0], o[1], 0.3); }});
  for (const double decay : {0.0, 0.1}) {
    for (const double beta1 : {0.9, 0.3}) {  // the two ends of lerp
      const Kernels::Adam how{.rate = 0.01, .beta1 = beta1, .weight_decay = decay, .step = 3};
      const Operands operands{draw(), draw(), draw(), source.positive(shape)};
      const std::string way = fmt::format("{}, decay {}, beta1 {}", detail, decay, beta1);
      calls.push_back({"adam", way, operands,
                       [how](auto& k, auto s, const Operands& o) { k.adam(s, o[0], o[1], o[2], o[3], how); }});
      calls.push_back({"adamw", way, operands,
                       [how](auto& k, auto s, const Operands& o) { k.adamw(s, o[0], o[1], o[2], o[3], how); }});
    }
  }
}

void add_sums(std::vector<KernelCall>& calls, Source& source, const Shape& shape) {
  const auto draw = [&] { return source.draw(shape); };
  const std::string detail = source.name() + " " + to_string(shape);
  calls.push_back(
      {"sum", detail, {source.loss({}), draw()}, [](auto& k, auto s, const Operands& o) { k.sum(s, o[0], o[1]); }});
  calls.push_back({"sum_of_squares", detail, {source.loss({}), draw()}, [](auto& k, auto s, const Operands& o) {
                     k.sum_of_squares(s, o[0], o[1]);
                   }});
  calls.push_back(
      {"dot_rows", detail, {source.loss({1}), draw(), source.draw({shape[1]})}, [](auto& k, auto s, const Operands& o) {
         k.dot_rows(s, o[0], o[1], o[2]);
       }});
  for (const bool add : {false, true}) {
    const std::string way = detail + (add ? " added" : "");
    calls.push_back({"dot", way, {source.draw({1}), draw(), draw()}, [add](auto& k, auto s, const Operands& o) {
                       k.dot(s, {o[0], add}, o[1], o[2]);
                     }});
  }
}

void add_norms(std::vector<KernelCall>& calls, Source& source, const Shape& shape) {
  const auto draw = [&] { return source.draw(shape); };
  const std::string detail = source.name() + " " + to_string(shape);
  for (const bool add : {false, true}) {
    const std::string way = detail + (add ? " added" : "");
    for (const double power : {1.0, 2.0, 3.5, std::numeric_limits<double>::infinity()}) {
      calls.push_back({"power_sum",
                       fmt::format("{} of power {}", way, power),
                       {source.draw({1}), draw()},
                       [add, power](auto& k, auto s, const Operands& o) { k.power_sum(s, o[0], o[1], power, add); }});
    }
  }
  for (const double power : {1.0, 2.0, 3.5, std::numeric_limits<double>::infinity()}) {
    const std::string way = fmt::format("{} of power {}", detail, power);
    calls.push_back({"power_root", way, {draw(), source.positive(shape)}, [power](auto& k, auto s, const Operands& o) {
                       k.power_root(s, o[0], o[1], power);
                     }});
    calls.push_back({"power_root", way + " in place", {draw()}, [power](auto& k, auto s, const Operands& o) {
                       k.power_root(s, o[0], o[0], power);
                     }});
  }
}

void add_matrices(std::vector<KernelCall>& calls, Source& source, std::int64_t m, std::int64_t n) {
  const std::string detail = fmt::format("{} [{}, {}]", source.name(), m, n);
  calls.push_back({"add_row", detail, {source.draw({m, n}), source.draw({n})}, [](auto& k, auto s, const Operands& o) {
                     k.add_row(s, o[0], o[1]);
                   }});
  calls.push_back({"layer_norm",
                   detail,
                   {source.draw({m, n}), source.draw({m, n}), source.draw({n}), source.draw({n})},
                   [](auto& k, auto s, const Operands& o) { k.layer_norm(s, o[0], o[1], o[2], o[3]); }});
  for (const bool add : {false, true}) {
    const std::string way = detail + (add ? " added" : "");
    calls.push_back(
        {"sum_rows", way, {source.draw({n}), source.draw({m, n})}, [add](auto& k, auto s, const Operands& o) {
           k.sum_rows(s, o[0], o[1], add);
         }});
    for (const std::int64_t inner : {0, 5}) {
      for (const bool transpose_a : {false, true}) {
        for (const bool transpose_b : {false, true}) {
          const Kernels::Matmul how{.transpose_a = transpose_a, .transpose_b = transpose_b, .add = add};
          calls.push_back({"matmul",
                           fmt::format("{} of {}, transposed {} {}", way, inner, transpose_a, transpose_b),
                           {source.draw({m, n}), source.draw(transpose_a ? Shape{inner, m} : Shape{m, inner}),
                            source.draw(transpose_b ? Shape{n, inner} : Shape{inner, n})},
                           [how](auto& k, auto s, const Operands& o) { k.matmul(s, o[0], o[1], o[2], how); }});
        }
      }
    }
    for (unsigned wanted = 0; wanted < 8; ++wanted) {
      const auto gradient = [&](unsigned which, const Shape& shape) {
        return (wanted & which) != 0 ? source.draw(shape) : Tensor{};
      };
      calls.push_back({"layer_norm_backward",
                       fmt::format("{}, gradients {:03b}", way, wanted),
                       {gradient(1, {m, n}), gradient(2, {n}), gradient(4, {n}), source.draw({m, n}),
                        source.draw({m, n}), (wanted & 1) != 0 ? source.draw({n}) : Tensor{}},
                       [add](auto& k, auto s, const Operands& o) {
                         k.layer_norm_backward(s, {{o[0], add}, {o[1], add}, {o[2], add}}, o[3], o[4], o[5]);
                       }});
    }
  }
}

void add_indexed(std::vector<KernelCall>& calls, Source& source, std::int64_t m, std::int64_t n) {
  constexpr std::int64_t vocabulary = 4;
  const std::string detail = fmt::format("{} [{}, {}]", source.name(), m, n);
  calls.push_back({"embedding",
                   detail,
                   {source.draw({m, n}), source.draw({vocabulary, n}), source.indices(m, vocabulary)},
                   [](auto& k, auto s, const Operands& o) { k.embedding(s, o[0], o[1], o[2]); }});
  for (const bool add : {false, true}) {
    calls.push_back({"embedding_backward",
                     detail + (add ? " added" : ""),
                     {source.draw({vocabulary, n}), source.draw({m, n}), source.indices(m, vocabulary)},
                     [add](auto& k, auto s, const Operands& o) { k.embedding_backward(s, {o[0], add}, o[1], o[2]); }});
  }
  if (n == 0) return;
  calls.push_back({"cross_entropy",
                   detail,
                   {source.loss({}), source.draw({m, n}), source.indices(m, n)},
                   [](auto& k, auto s, const Operands& o) { k.cross_entropy(s, o[0], o[1], o[2]); }});
  calls.push_back({"cross_entropy_backward",
                   detail,
                   {source.draw({m, n}), source.draw({m, n}), source.indices(m, n)},
                   [](auto& k, auto s, const Operands& o) { k.cross_entropy_backward(s, o[0], o[1], o[2]); }});
}

void add_sequences(std::vector<KernelCall>& calls, Source& source, std::int64_t sequences, std::int64_t positions,
                   std::int64_t features) {
  const Shape shape{sequences * positions, features};
  const auto draw = [&] { return source.draw(shape); };
  const std::string detail = fmt::format("{} {} x {}", source.name(), sequences, to_string({positions, features}));
  calls.push_back(
      {"add_positions", detail, {draw(), source.draw({positions, features})}, [](auto& k, auto s, const Operands& o) {
         k.add_positions(s, o[0], o[1]);
       }});
  calls.push_back(
      {"attention", detail, {draw(), draw(), draw(), draw()}, [positions](auto& k, auto s, const Operands& o) {
         k.attention(s, o[0], {o[1], o[2], o[3], positions});
       }});
  calls.push_back(
      {"attention", detail + " to itself", {draw(), draw()}, [positions](auto& k, auto s, const Operands& o) {
         k.attention(s, o[0], {o[1], o[1], o[1], positions});
       }});
  for (const bool add : {false, true}) {
    const std::string way = detail + (add ? " added" : "");
    calls.push_back({"add_positions_backward",
                     way,
                     {source.draw({positions, features}), draw()},
                     [add](auto& k, auto s, const Operands& o) { k.add_positions_backward(s, {o[0], add}, o[1]); }});
    for (unsigned wanted = 0; wanted < 8; ++wanted) {
      const auto gradient = [&](unsigned which) { return (wanted & which) != 0 ? draw() : Tensor{}; };
      calls.push_back({"attention_backward",
                       fmt::format("{}, gradients {:03b}", way, wanted),
                       {gradient(1), gradient(2), gradient(4), draw(), draw(), draw(), draw()},
                       [add, positions](auto& k, auto s, const Operands& o) {
                         k.attention_backward(s, {{o[0], add}, {o[1], add}, {o[2], add}}, o[3],
                                              {o[4], o[5], o[6], positions});
                       }});
    }
  }
}

}  // namespace

Tensor any_bits(DType dtype, const Shape& shape, unsigned seed) {
  std::mt19937_64 random(seed);
  const Tensor drawn = Tensor::host(dtype, shape);
  tensor::elements::visit(dtype, [&](auto type) {
    using T = typename decltype(type)::type;
    using Limits = std::numeric_limits<T>;
    constexpr std::size_t size = sizeof(T);
    std::vector<T> special{Limits::max(), Limits::lowest(), Limits::min(), T(0), T(1)};
    if constexpr (!Limits::is_integer) {
      special.insert(special.end(), {-T(0), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                                     -Limits::quiet_NaN(), Limits::denorm_min(), -Limits::denorm_min(), T(2147483648.0),
                                     T(-32769), T(65519), T(65520), T(0.5)});
    }
    for (T& element : drawn.values<T>()) {
      const std::uint64_t bits = random();
      if (random() % 4 == 0) {
        element = special[bits % special.size()];
      } else if (random() % 2 == 0) {
        const std::span<std::byte> bytes = std::as_writable_bytes(std::span(&element, 1));
        for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(bits >> (8 * i));
      } else {  // of a size that every dtype has
        element = tensor::elements::convert<T>(static_cast<float>(static_cast<std::int64_t>(bits % 4097) - 2048) /
                                               (bits % 3 == 0 ? 1.0F : 19.0F));
      }
    }
  });
  return drawn;
}

std::vector<KernelCall> element_calls(unsigned seed) {
  std::vector<KernelCall> calls;
  std::mt19937 random(seed);
  const auto draw = [&](DType dtype, const Shape& shape) {
    return any_bits(dtype, shape, static_cast<unsigned>(random()));
  };
  constexpr std::array operands{
      3.0, -0.3, 1e300, 1e-310, 0.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()};
  for (const DType to : every_dtype) {
    for (const double value : operands) {
      calls.push_back({"fill",
                       fmt::format("{} {}", to_string(to), value),
                       {draw(to, {3})},
                       [value](auto& k, auto s, const Operands& o) { k.fill(s, o[0], value); },
                       true});
    }
    for (const DType from : every_dtype) {
      const std::string pair = fmt::format("{} from {}", to_string(to), to_string(from));
      for (const Shape& shape : {Shape{0}, Shape{4099}}) {
        calls.push_back({"copy",
                         pair,
                         {draw(to, shape), draw(from, shape)},
                         [](auto& k, auto s, const Operands& o) { k.copy(s, o[0], o[1]); },
                         true});
        calls.push_back(
            {"accumulate", pair, {draw(to, shape), draw(from, shape)}, [](auto& k, auto s, const Operands& o) {
               k.accumulate(s, o[0], o[1]);
             }});
      }
      for (const double operand : operands) {
        const std::string by = fmt::format("{} by {}", pair, operand);
        calls.push_back(
            {"scale", by, {draw(to, {517}), draw(from, {517})}, [operand](auto& k, auto s, const Operands& o) {
               k.scale(s, o[0], o[1], operand);
             }});
        calls.push_back(
            {"divide", by, {draw(to, {517}), draw(from, {517})}, [operand](auto& k, auto s, const Operands& o) {
               k.divide(s, o[0], o[1], operand);
             }});
      }
    }
    calls.push_back({"scale", "in place", {draw(to, {517})}, [](auto& k, auto s, const Operands& o) {
                       k.scale(s, o[0], o[0], 1.7);
                     }});
    calls.push_back({"divide", "in place", {draw(to, {517})}, [](auto& k, auto s, const Operands& o) {
                       k.divide(s, o[0], o[0], 1.7);
                     }});
  }
  return calls;
}

std::vector<KernelCall> float_calls(unsigned seed) {
  std::vector<KernelCall> calls;
  for (const auto& [dtype, losses] : {std::pair{DType::f32, DType::f32},
                                      {DType::f64, DType::f64},
                                      {DType::bf16, DType::bf16},
                                      {DType::bf16, DType::f32},
                                      {DType::f16, DType::f16},
                                      {DType::f16, DType::f32}}) {
    for (const bool wild : {false, true}) {
      Source source(dtype, losses, wild, seed);
      for (const auto& [m, n] : {std::pair<std::int64_t, std::int64_t>{5, 7}, {1, 1}, {0, 3}, {3, 0}, {17, 33}}) {
        add_sums(calls, source, {m, n});
        add_indexed(calls, source, m, n);
        if (dtype != losses) continue;  // only losses differ
        add_element_wise(calls, source, {m, n});
        add_matrices(calls, source, m, n);
        if (dtype != DType::f32 && dtype != DType::f64) continue;
        add_norms(calls, source, {m, n});
        add_optimizers(calls, source, {m, n});
      }
      if (dtype != losses) continue;
      add_sequences(calls, source, 3, 5, 7);
      add_sequences(calls, source, 1, 1, 1);
      add_sequences(calls, source, 0, 4, 3);
      add_sequences(calls, source, 2, 3, 0);
    }
  }
  return calls;
}

}  // namespace shardproof::device::cuda

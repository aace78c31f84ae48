#include "reports/play/play_bits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "reports/play/play_norms.hpp"

namespace shardproof::reports {

using protocol::PlayedIteration;
using protocol::PlayedTensor;
using protocol::PlayResult;

namespace {

struct Format {
  int exponent_bits = 0, fraction_bits = 0;  ///< 0 for integers
};

std::optional<Format> float_format(DType dtype) {
  switch (dtype) {
    case DType::f64: return Format{11, 52};
    case DType::f32: return Format{8, 23};
    case DType::bf16: return Format{8, 7};
    case DType::f16: return Format{5, 10};
    default: return std::nullopt;
  }
}

/// One element, as its bits. For narrow dtypes, the leading digits are zero.
class Element {
 public:
  Element(DType dtype, std::string_view hex) : hex_(hex), format_(float_format(dtype)) {
    std::from_chars(hex.data(), hex.data() + hex.size(), bits_, 16);
  }

  bool is_nan() const {
    if (!format_) return false;
    const std::uint64_t infinity = ((std::uint64_t{1} << format_->exponent_bits) - 1) << format_->fraction_bits;
    return magnitude() > infinity;
  }

  /// The distance in units in the last place. For integers, 0 or the greatest distance.
  std::uint64_t distance(const Element& other) const {
    constexpr std::uint64_t far = std::numeric_limits<std::uint64_t>::max();
    if (bits_ == other.bits_) return 0;
    if (!format_) return far;
    if (is_nan() || other.is_nan()) return is_nan() && other.is_nan() ? 0 : far;
    if (is_negative() != other.is_negative()) return magnitude() + other.magnitude();
    return magnitude() > other.magnitude() ? magnitude() - other.magnitude() : other.magnitude() - magnitude();
  }

  std::string text() const {
    if (!format_) return fmt::format("0x{}", hex_);
    return fmt::format("{} (0x{})", value(), hex_);
  }

 private:
  std::uint64_t magnitude() const {
    return bits_ & ~(std::uint64_t{1} << (format_->exponent_bits + format_->fraction_bits));
  }
  bool is_negative() const { return bits_ != magnitude(); }

  double value() const {
    if (is_nan()) return std::numeric_limits<double>::quiet_NaN();
    const std::uint64_t exponent = magnitude() >> format_->fraction_bits;
    const std::uint64_t fraction = magnitude() & ((std::uint64_t{1} << format_->fraction_bits) - 1);
    const int bias = (1 << (format_->exponent_bits - 1)) - 1;
    const bool is_infinite = exponent == (std::uint64_t{1} << format_->exponent_bits) - 1;
    const std::uint64_t leading = exponent == 0 ? 0 : std::uint64_t{1} << format_->fraction_bits;
    const double size = is_infinite
                            ? std::numeric_limits<double>::infinity()
                            : std::ldexp(static_cast<double>(fraction + leading),
                                         std::max(static_cast<int>(exponent), 1) - bias - format_->fraction_bits);
    return is_negative() ? -size : size;
  }

  std::string_view hex_;
  std::optional<Format> format_;
  std::uint64_t bits_ = 0;
};

std::string part_text(const PlayedTensor& tensor) {
  const std::string along = tensor.dim < 0 ? "of all elements" : fmt::format("along dimension {}", tensor.dim);
  return fmt::format("{} [{}], from {} {}", to_string(tensor.dtype), fmt::join(tensor.shape, ", "), tensor.start,
                     along);
}

/// Compares all values, keeps the first difference, and counts the others.
class Values {
 public:
  explicit Values(std::uint64_t ulps) : ulps_(ulps) {}

  void iterations(const std::vector<PlayResult>& first, const std::vector<PlayResult>& second) {
    std::size_t most = 0;
    for (std::size_t rank = 0; rank < first.size(); ++rank) {
      const std::size_t one = first[rank].iterations.size(), other = second[rank].iterations.size();
      most = std::max(most, std::min(one, other));
      at_ = {.aspect = Aspect::bits, .rank = static_cast<int>(rank)};
      if (one != other) keep("how many captures", fmt::format("{}", one), fmt::format("{}", other));
    }
    struct Part {
      const char* name;
      std::vector<PlayedTensor> PlayedIteration::* tensors;
    };
    constexpr Part parts[] = {{"gradient", &PlayedIteration::gradients},
                              {"parameter", &PlayedIteration::parameters},
                              {"second tensor of parameter", &PlayedIteration::seconds}};
    for (std::size_t iteration = 0; iteration < most; ++iteration) {
      const auto each = [&](auto&& compare) {
        for (std::size_t rank = 0; rank < first.size(); ++rank) {
          if (iteration >= first[rank].iterations.size() || iteration >= second[rank].iterations.size()) continue;
          at_ = {.aspect = Aspect::bits, .rank = static_cast<int>(rank), .iteration = static_cast<int>(iteration)};
          compare(first[rank].iterations[iteration], second[rank].iterations[iteration]);
        }
      };
      each([&](const PlayedIteration& one, const PlayedIteration& other) { losses(one.loss, other.loss); });
      // Missing parameters come before gradients: a missing parameter has no gradient either, and the parameter is the
      // cause.
      each([&](const PlayedIteration& one, const PlayedIteration& other) {
        presence("parameter", one.parameters, other.parameters, "missing");
      });
      for (const Part& part : parts) {
        each([&](const PlayedIteration& one, const PlayedIteration& other) {
          tensors(part.name, one.*part.tensors, other.*part.tensors);
        });
      }
    }
  }

  void norms(const std::vector<GradientNorm>& first, const std::vector<GradientNorm>& second) {
    at_.iteration.reset();
    at_.rank.reset();
    for (std::size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      const std::string one = protocol::bits_of(static_cast<float>(first[i].norm)),
                        other = protocol::bits_of(static_cast<float>(second[i].norm));
      elements(fmt::format("gradient norm of iteration {}", first[i].iteration), std::nullopt, {DType::f32, one},
               {DType::f32, other});
    }
  }

  std::size_t compared() const { return compared_; }

  std::optional<PlayDifference> found() const {
    if (!first_) return std::nullopt;
    PlayDifference found = *first_;
    if (different_ == 0) return found;
    found.more = fmt::format("in total, {} of {} values differ", different_, compared_);
    if (furthest_ > 0 && furthest_ <= meaningful)
      found.more += fmt::format(", by {} units in the last place at most", furthest_);
    return found;
  }

 private:
  // A greater distance is more than rounding.
  static constexpr std::uint64_t meaningful = 1 << 20;

  void keep(std::string what, std::string one, std::string other, std::optional<std::size_t> index = std::nullopt) {
    if (first_) return;
    first_ = at_;
    first_->what = std::move(what);
    first_->values = {std::move(one), std::move(other)};
    first_->index = index;
  }

  void elements(const std::string& what, std::optional<std::size_t> index, const Element& one, const Element& other) {
    take(what, index, one, other, one.distance(other));
  }

  void take(const std::string& what, std::optional<std::size_t> index, const Element& one, const Element& other,
            std::uint64_t distance) {
    ++compared_;
    if (distance <= ulps_) return;
    ++different_;
    furthest_ = std::max(furthest_, distance);
    if (!first_) keep(what, one.text(), other.text(), index);
  }

  void losses(float first, float second) {
    const std::string one = protocol::bits_of(first), other = protocol::bits_of(second);
    const Element mine(DType::f32, one), others(DType::f32, other);
    // A loss is a single number, so the sign of a zero counts, too.
    const bool is_other_zero = first == 0 && second == 0 && one != other;
    take("loss", std::nullopt, mine, others, is_other_zero ? 1 : mine.distance(others));
  }

  void presence(std::string_view what, const std::vector<PlayedTensor>& first, const std::vector<PlayedTensor>& second,
                const std::string& absent) {
    const auto lacks = [&](const std::vector<PlayedTensor>& from, const std::vector<PlayedTensor>& in,
                           bool is_swapped) {
      for (const PlayedTensor& tensor : from) {
        if (std::ranges::find(in, tensor.name, &PlayedTensor::name) != in.end()) continue;
        keep(fmt::format("{} \"{}\"", what, tensor.name), is_swapped ? absent : part_text(tensor),
             is_swapped ? part_text(tensor) : absent);
      }
    };
    lacks(first, second, false);
    lacks(second, first, true);
  }

  void tensors(const std::string& what, const std::vector<PlayedTensor>& first,
               const std::vector<PlayedTensor>& second) {
    presence(what, first, second, "none");
    for (const PlayedTensor& tensor : first) {
      const auto other = std::ranges::find(second, tensor.name, &PlayedTensor::name);
      if (other != second.end()) parts(fmt::format("{} \"{}\"", what, tensor.name), tensor, *other);
    }
  }

  void parts(const std::string& what, const PlayedTensor& first, const PlayedTensor& second) {
    // A part without elements has no position.
    const bool is_empty = first.bits.empty() && second.bits.empty();
    const bool is_placed_alike = is_empty || (first.dim == second.dim && first.start == second.start);
    if (first.dtype != second.dtype || first.shape != second.shape || first.bits.size() != second.bits.size() ||
        !is_placed_alike)
      return keep(what, part_text(first), part_text(second));
    const std::size_t digits = 2 * size_of(first.dtype);
    for (std::size_t at = 0; at + digits <= first.bits.size(); at += digits) {
      const auto element = [&](const PlayedTensor& tensor) {
        return Element(tensor.dtype, std::string_view(tensor.bits).substr(at, digits));
      };
      elements(what, at / digits, element(first), element(second));
    }
  }

  std::uint64_t ulps_;
  PlayDifference at_;  ///< the position of the comparison
  std::optional<PlayDifference> first_;
  std::size_t compared_ = 0, different_ = 0;
  std::uint64_t furthest_ = 0;
};

}  // namespace

BitsComparison compare_bits(const std::vector<PlayResult>& first, const std::vector<PlayResult>& second,
                            std::uint64_t ulps) {
  Values values(ulps);
  values.iterations(first, second);
  values.norms(gradient_norms(first), gradient_norms(second));
  return {.compared = values.compared(), .first = values.found()};
}

}  // namespace shardproof::reports

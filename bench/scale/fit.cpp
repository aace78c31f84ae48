#include "bench/scale/fit.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

namespace shardproof::bench {

namespace {

std::array<double, Fit::terms> terms_of(int hosts, int ranks) {
  const double h = hosts, w = ranks;
  return {1, h, w, h * w, w * w};
}

}  // namespace

Fit::Fit(const std::array<Sample, terms>& samples) {
  // Gaussian elimination.
  std::array<std::array<double, terms + 1>, terms> rows{};
  for (std::size_t i = 0; i < terms; ++i) {
    std::ranges::copy(terms_of(samples[i].hosts, samples[i].ranks), rows[i].begin());
    rows[i][terms] = static_cast<double>(samples[i].count);
  }
  for (std::size_t column = 0; column < terms; ++column) {
    const auto largest =
        std::max_element(rows.begin() + static_cast<std::ptrdiff_t>(column), rows.end(),
                         [&](const auto& a, const auto& b) { return std::abs(a[column]) < std::abs(b[column]); });
    if (std::abs((*largest)[column]) < 1e-9) throw std::invalid_argument("these sizes do not determine a fit");
    std::swap(rows[column], *largest);
    for (std::size_t row = 0; row < terms; ++row) {
      if (row == column) continue;
      const double factor = rows[row][column] / rows[column][column];
      for (std::size_t i = column; i <= terms; ++i) rows[row][i] -= factor * rows[column][i];
    }
  }
  for (std::size_t i = 0; i < terms; ++i) factors_[i] = std::round(rows[i][terms] / rows[i][i]);
}

std::uint64_t Fit::at(int hosts, int ranks) const {
  const std::array<double, terms> terms_there = terms_of(hosts, ranks);
  double sum = 0;
  for (std::size_t i = 0; i < terms; ++i) sum += factors_[i] * terms_there[i];
  return static_cast<std::uint64_t>(std::llround(sum));
}

}  // namespace shardproof::bench

// Helpers of the benchmark programs: they measure times and print them as rows of one table.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::bench {

template <class Action>
double milliseconds(const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// A time as text, with three digits, in the largest unit that fits.
inline std::string in_time(double ns) {
  struct Unit {
    double ns;
    std::string_view name;
  };
  for (const Unit unit : {Unit{1e9, "s"}, Unit{1e6, "ms"}, Unit{1e3, "µs"}}) {
    if (ns >= unit.ns) return fmt::format("{:.3g} {}", ns / unit.ns, unit.name);
  }
  return fmt::format("{:.3g} ns", ns);
}

/// Prints `| what | goal | measured | compared with | goal met |`. Without a goal, the last cell is empty.
inline void print_row(std::string_view what, std::string_view goal, std::string_view measured,
                      std::string_view compared_with, bool met) {
  fmt::print("| {} | {} | {} | {} | {} |\n", what, goal, measured, compared_with,
             goal.empty() ? ""
             : met        ? "yes"
                          : "**no**");
  std::fflush(stdout);
}

}  // namespace shardproof::bench

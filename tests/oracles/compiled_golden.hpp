// The calls of a compiled backward as text. Tests compare this text with the text of the golden file of PyTorch's
// compiler.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <iterator>
#include <string>
#include <vector>

#include "tests/golden_tables/golden_tables.hpp"

namespace shardproof::oracles {

/// The kinds of calls.
inline constexpr const char* one_operand = "all_reduce";
inline constexpr const char* several_operands = "all_reduce_coalesced";
inline constexpr const char* wait_for_one = "wait";

/// One line for each call, in order: `all_reduce_coalesced [2000], [2000, 2000]`. The waits for one all-reduce are
/// sorted, because PyTorch does not wait in the order of its operands. Fails if an all-reduce comes after a wait, or if
/// the operands and the waits differ in number.
inline std::vector<std::string> calls_in_words(const std::vector<golden::CompiledBackward::Call>& calls) {
  using Call = golden::CompiledBackward::Call;
  std::vector<std::string> words;
  for (const Call& call : calls) {
    std::vector<std::string> shapes;
    for (const Shape& operand : call.operands) shapes.push_back(to_string(operand));
    words.push_back(fmt::format("{} {}", call.kind, fmt::join(shapes, ", ")));
  }
  const auto first_wait = std::ranges::find(calls, wait_for_one, &Call::kind);
  CHECK(std::ranges::count(calls, wait_for_one, &Call::kind) == calls.end() - first_wait);
  auto begin = words.begin() + (first_wait - calls.begin());
  for (auto start = calls.begin(); start != first_wait; ++start) {
    const auto end = begin + std::min(std::ssize(start->operands), words.end() - begin);
    std::sort(begin, end);
    begin = end;
  }
  CHECK(begin == words.end());
  return words;
}

}  // namespace shardproof::oracles

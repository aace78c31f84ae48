#include "harness/base/rank_list.hpp"

#include <fmt/format.h>

#include <cstddef>

namespace shardproof::base {

std::string rank_list(const std::vector<int>& ranks) {
  constexpr std::size_t most_pieces = 8, shortest_run = 3;
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  std::size_t pieces = 0;
  for (std::size_t i = 0; i < ranks.size(); ++pieces) {
    if (pieces == most_pieces) return text + fmt::format(" and {} more", ranks.size() - i);
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    const bool is_run = end - i >= shortest_run;
    text += fmt::format("{} {}", pieces == 0 ? "" : ",", ranks[i]);
    if (is_run) text += fmt::format("…{}", ranks[end - 1]);
    i = is_run ? end : i + 1;
  }
  return text;
}

}  // namespace shardproof::base

#include "reports/explain/nccl_calls.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "harness/base/rank_list.hpp"
#include "harness/trace/nccl_matching.hpp"

namespace shardproof::reports {

using protocol::TapRecord;

namespace {

using protocol::Call;
using protocol::TapRecord;

/// The numbers of calls that a sentence names. A rank with more open calls has too many to list.
constexpr std::size_t last_calls = 3, most_open = 8;

std::string text_of(const std::vector<const protocol::Call*>& calls) {
  std::vector<std::string> texts;
  texts.reserve(calls.size());
  for (const protocol::Call* call : calls)
    texts.push_back(protocol::describe(*call) + protocol::describe_outcome(*call));
  return fmt::format("{}", fmt::join(texts, "; "));
}

/// A process's calls, as the text after its name.
std::string calls_text(const TapRecord& record) {
  std::vector<const protocol::Call*> open, last;
  const std::size_t earlier = record.calls.size() - std::min(record.calls.size(), last_calls);
  for (std::size_t i = 0; i < record.calls.size(); ++i) {
    if (i >= earlier) last.push_back(&record.calls[i]);
    else if (!record.calls[i].has_left()) open.push_back(&record.calls[i]);
  }
  std::string text = fmt::format("called NCCL {} time{}", record.begun, record.begun == 1 ? "" : "s");
  const std::size_t left_out = open.size() - std::min(open.size(), most_open);
  open.resize(open.size() - left_out);
  if (!open.empty()) text += ", earlier: " + text_of(open);
  if (left_out > 0) text += fmt::format(" and {} more that had not returned", left_out);
  if (!last.empty()) text += ", last: " + text_of(last);
  if (record.missing > 0) text += fmt::format(", and {} that it was about to write down", record.missing);
  return text;
}

std::vector<int> ranks_without(std::span<const TapRecord> records, int world_size, std::span<const int> damaged) {
  std::vector<int> without;
  for (int rank = 0; rank < world_size; ++rank) {
    const auto is_its = [rank](const TapRecord& record) { return record.process.rank == rank; };
    if (std::ranges::none_of(records, is_its) && std::ranges::find(damaged, rank) == damaged.end())
      without.push_back(rank);
  }
  return without;
}

}  // namespace

std::vector<std::string> nccl_sentences(std::span<const TapRecord> records, int world_size,
                                        std::span<const int> damaged) {
  // In the order of the first rank that made these calls.
  std::vector<std::pair<std::string, std::vector<int>>> by_calls;
  std::vector<std::string> of_processes;
  for (const TapRecord& record : records) {
    std::string text = calls_text(record);
    const auto is_its_rank = [&](const TapRecord& other) { return other.process.rank == record.process.rank; };
    if (!record.process.rank) {
      of_processes.push_back(fmt::format("process {} {}", record.process.pid, text));
    } else if (std::ranges::count_if(records, is_its_rank) > 1) {
      of_processes.push_back(fmt::format("process {} of rank {} {}", record.process.pid, *record.process.rank, text));
    } else {
      auto known = std::ranges::find(by_calls, text, &std::pair<std::string, std::vector<int>>::first);
      if (known == by_calls.end()) known = by_calls.insert(known, std::pair(std::move(text), std::vector<int>()));
      known->second.push_back(*record.process.rank);
    }
  }
  std::vector<std::string> sentences;
  sentences.reserve(by_calls.size());
  for (const auto& [text, ranks] : by_calls)
    sentences.push_back(fmt::format("{} {}{}", base::rank_list(ranks), ranks.size() > 1 ? "each " : "", text));
  std::ranges::move(of_processes, std::back_inserter(sentences));
  const bool are_processes = records.empty() || std::ranges::any_of(records, [](const TapRecord& record) {
                               return record.process.rank.has_value();
                             });
  if (const std::vector<int> without = ranks_without(records, world_size, damaged); are_processes && !without.empty())
    sentences.push_back(fmt::format("{} {} no record of a call of NCCL", base::rank_list(without),
                                    without.size() == 1 ? "has" : "have"));
  if (const auto difference = trace::first_difference(records)) sentences.push_back(difference->sentence);
  return sentences;
}

}  // namespace shardproof::reports

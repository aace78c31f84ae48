#include "launcher/run/finished_cases.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "harness/protocol/events.hpp"
#include "reports/merge/merger.hpp"

namespace shardproof::launcher {

FinishedCases::FinishedCases(const protocol::WorldPlan& plan, const protocol::WorldDirectory& directory,
                             const CaseIndex& index, const reports::RunHead& head)
    : plan_(plan), index_(index), head_(head) {
  for (int rank = 0; rank < plan.size; ++rank) streams_.emplace_back(directory.rank_stream(rank));
}

void FinishedCases::update(const control::ControlPlane& page, const Take& take) {
  if (!is_valid_) return;
  for (int rank = 0; rank < plan_.size; ++rank) {
    if (page.progress(rank).cases_ended <= taken_) return;
  }
  try {
    std::size_t count = plan_.cases.size() - taken_;
    for (Stream& stream : streams_) {
      read_on(stream);
      const auto ended = std::ranges::count_if(
          stream.read.cases, [](const reports::StreamedCase& streamed) { return streamed.ended.has_value(); });
      count = std::min(count, static_cast<std::size_t>(ended));
    }
    for (const reports::CaseResult& result : merge(count)) take(taken_++, result);
  } catch (const std::invalid_argument&) {
    is_valid_ = false;
  }
}

void FinishedCases::read_on(Stream& stream) {
  stream.rest += stream.file.read_new();
  std::size_t begin = 0;
  for (std::size_t end = stream.rest.find('\n'); end != std::string::npos; end = stream.rest.find('\n', begin)) {
    stream.assembly.take(protocol::parse_line(std::string_view(stream.rest).substr(begin, end - begin)));
    begin = end + 1;
  }
  stream.rest.erase(0, begin);
}

/// Merges them like a world that has these cases only, and that all ranks left in order.
std::vector<reports::CaseResult> FinishedCases::merge(std::size_t count) {
  if (count == 0) return {};
  protocol::WorldPlan part = plan_;
  const auto first = plan_.cases.begin() + static_cast<std::ptrdiff_t>(taken_);
  part.cases.assign(first, first + static_cast<std::ptrdiff_t>(count));
  std::vector<protocol::Ending> endings;
  for (int rank = 0; rank < plan_.size; ++rank)
    endings.push_back({.rank = rank, .how = protocol::Ending::How::exited, .text = {}, .last_words = {}});
  reports::Merger merger(head_);
  merger.open_world(part, index_.find(part.cases), std::move(endings), 0);
  for (Stream& stream : streams_) {
    reports::RankStream taken{.start = stream.read.start, .cases = {}, .complete = true, .cut_short = {}, .defect = {}};
    const auto end = stream.read.cases.begin() + static_cast<std::ptrdiff_t>(count);
    std::move(stream.read.cases.begin(), end, std::back_inserter(taken.cases));
    stream.read.cases.erase(stream.read.cases.begin(), end);
    for (reports::StreamedCase& streamed : taken.cases) {
      if (streamed.started.position < taken_) throw std::invalid_argument("a position that has been taken");
      streamed.started.position -= taken_;
      streamed.ended->position -= taken_;
    }
    merger.add(std::move(taken));
  }
  const auto closed = merger.close_world();
  std::vector<reports::CaseResult> results(closed.begin(), closed.end());
  if (!merger.finish().worlds.front().defects.empty()) throw std::invalid_argument("defects");
  return results;
}

}  // namespace shardproof::launcher

// Reading back what one rank streamed: its cases in order, and whether the stream can be trusted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "harness/protocol/events.hpp"

namespace shardproof::reports {

/// One case of one rank. Not ended: the stream stops inside it.
struct StreamedCase {
  event::CaseStarted started;
  std::vector<event::AssertionFailed> failures;
  std::uint64_t failures_left_out = 0;  ///< read but not kept
  std::vector<event::Measured> measurements;
  std::optional<event::CaseEnded> ended;
};

struct RankStream {
  std::optional<event::RankStarted> start;
  std::vector<StreamedCase> cases;
  bool complete = false;   ///< the rank said that it left
  std::string cut_short;   ///< why it says that all ranks did so where they were in their plan
  std::string defect;      ///< empty, or where and how the stream is corrupt; what stands before that place is kept
  bool truncated = false;  ///< the last line has no newline: normal for a killed rank, and left out
  bool absent = false;     ///< there is no file, or nothing in it
};

/// What a reader keeps of one stream, whatever stands in it.
struct StreamLimits {
  std::size_t cases = 1'000'000;
  std::size_t failures_per_case = 100;  ///< the first ones; later ones are counted
  std::size_t measurements_per_case = 1'000;
  std::size_t failure_bytes = std::size_t{64} << 20U;  ///< of all failures together; later ones are counted
  std::size_t other_bytes = std::size_t{512} << 20U;   ///< of everything else
};

/// Never throws for content. Reading ends at the first line that is no event or cannot stand there: a stream is `rank_started`, then cases
/// (started, failures and measurements, ended), then `rank_ended` and nothing more.
RankStream read_rank_stream(std::istream& in, const StreamLimits& limits = {});
/// A file that cannot be opened is a stream with that defect.
RankStream read_rank_stream(const std::filesystem::path& file, const StreamLimits& limits = {});

}  // namespace shardproof::reports

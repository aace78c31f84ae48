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
  std::vector<event::Measured> measurements;
  std::optional<event::CaseEnded> ended;
};

struct RankStream {
  std::optional<event::RankStarted> start;
  std::vector<StreamedCase> cases;
  bool complete = false;   ///< the rank said that it left
  std::string defect;      ///< empty, or where and how the stream is corrupt; what stands before that place is kept
  bool truncated = false;  ///< the last line has no newline: normal for a killed rank, and left out
};

/// Never throws for content.
RankStream read_rank_stream(std::istream& in);
/// A missing file is a stream with that defect.
RankStream read_rank_stream(const std::filesystem::path& file);

}  // namespace shardproof::reports

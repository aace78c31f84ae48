// Reads the stream of one rank: its cases in order, and whether the stream can be trusted. The launcher reads streams
// for the merger.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/events.hpp"

namespace shardproof::reports {

/// One case of one rank. Without `ended`, the stream stops inside the case.
struct StreamedCase {
  protocol::event::CaseStarted started;
  std::vector<protocol::event::AssertionFailed> failures;
  std::uint64_t failures_left_out = 0;  ///< read but not kept
  std::vector<protocol::event::Measured> measurements;
  std::optional<protocol::event::CaseEnded> ended;
};

struct RankStream {
  std::optional<protocol::event::RankStarted> start;
  std::vector<StreamedCase> cases;
  bool complete = false;   ///< The rank reported that it left.
  std::string cut_short;   ///< The reason it gives why all ranks left early, wherever they were in their plan.
  bool is_cut_by_case = false;  ///< The ranks left because its last case changed its process.
  /// Where and how the stream is corrupt. The content before that place is kept. Empty: it is intact.
  std::string defect;
  bool truncated = false;  ///< The last line has no newline, and is left out. That is normal for a killed rank.
  bool absent = false;     ///< The file is missing or empty.
};

/// The limits on the content that a reader keeps of one stream.
struct StreamLimits {
  std::size_t cases = 1'000'000;
  std::size_t failures_per_case = 100;  ///< the first ones; later ones are counted
  std::size_t measurements_per_case = 1'000;
  std::size_t failure_bytes = std::size_t{64} << 20U;  ///< of all failures together; later ones are counted
  std::size_t other_bytes = std::size_t{512} << 20U;   ///< of everything else
};

/// Takes the events of a stream in order, and makes its cases. Functions that read a stream call it for each line.
class StreamAssembly {
 public:
  /// Borrows `stream`. Its owner may take ended cases out of it between two events.
  explicit StreamAssembly(RankStream& stream, const StreamLimits& limits = {}) : stream_(stream), limits_(limits) {}

  /// Throws std::invalid_argument at the first event that is not allowed at its place.
  void take(protocol::RankEvent&& event);

 private:
  void on(protocol::event::RankStarted&& e);
  void on(protocol::event::CaseStarted&& e);
  void on(protocol::event::AssertionFailed&& e);
  void on(protocol::event::Measured&& e);
  void on(protocol::event::CaseEnded&& e);
  void on(protocol::event::RankEnded&& e);
  StreamedCase& open_case(std::string_view what);
  void keep(std::size_t bytes);

  RankStream& stream_;
  const StreamLimits limits_;
  bool open_ = false;
  std::size_t failure_bytes_ = 0;
  std::size_t other_bytes_ = 0;
};

/// Never throws because of the content. A stream is `rank_started`, then cases (started, failures and measurements,
/// ended), then `rank_ended`. Reading ends at the first line that is not an event, or is not allowed at its place.
RankStream read_rank_stream(std::istream& in, const StreamLimits& limits = {});
/// The same for a file `ranks/rank-N.jsonl`. Follows no link. A file that cannot be opened gives a stream with that
/// defect.
RankStream read_rank_stream(const std::filesystem::path& file, const StreamLimits& limits = {});

}  // namespace shardproof::reports

// Finds the cases of a running world that all ranks have ended, and their verdicts. Events of a run need them before
// the world's end, which decides: a rank that dies, or a corrupt stream, may still change a verdict.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/control/control_plane.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/files/growing_file.hpp"
#include "launcher/run/records.hpp"
#include "reports/merge/rank_stream.hpp"
#include "reports/model/report.hpp"

namespace shardproof::launcher {

class FinishedCases {
 public:
  /// Borrows all of them.
  FinishedCases(const protocol::WorldPlan& plan, const protocol::WorldDirectory& directory, const CaseIndex& index,
                const reports::RunHead& head);

  /// Calls `take` for each case that all ranks have ended since the last call, in the order of the plan. Reads streams
  /// only if `page` shows such a case. After the first stream that is not valid evidence, there are no more cases.
  using Take = std::function<void(std::uint64_t position, const reports::CaseResult& result)>;
  void update(const control::ControlPlane& page, const Take& take);

 private:
  /// The part of a rank's stream that has not been taken.
  struct Stream {
    explicit Stream(const std::filesystem::path& path) : file(path) {}
    Stream(const Stream&) = delete;  // `assembly` borrows `read`
    GrowingFile file;
    std::string rest;  ///< the beginning of an incomplete line
    reports::RankStream read;
    reports::StreamAssembly assembly{read};
  };

  /// Throws std::invalid_argument at the first line that is not allowed at its place.
  static void read_on(Stream& stream);
  /// Merges the first `count` cases of all streams.
  std::vector<reports::CaseResult> merge(std::size_t count);

  const protocol::WorldPlan& plan_;
  const CaseIndex& index_;
  const reports::RunHead& head_;
  std::deque<Stream> streams_;  ///< by rank
  std::uint64_t taken_ = 0;
  bool is_valid_ = true;
};

}  // namespace shardproof::launcher

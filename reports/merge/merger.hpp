// Merges the streams of ranks and the endings of their processes into a report. Holds one rank's stream in memory at a
// time. Runs and `merge` use it. Pure.
//
// outcome_rules.hpp has the rules by which evidence becomes outcomes and verdicts. The merger decides what is evidence:
//   1. A stream counts only if its first line has this rank, world size, nonce and protocol. It must also have the
//      suite version and build of the first stream that counts. Else every case is `missing` on this rank.
//   2. A rank may report why all ranks of its world left early. It then answers for no later case, however its process
//      ended afterwards.
//   3. If the plan has another case than the launcher's at a position, or no case there, the ranks of that case count
//      as different (`ranks_differ`).
//   4. Times of ranks on other hosts than the first rank's are converted to the first rank's clock.
//
// The world gets a sentence about each defect.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/clock_pair.hpp"
#include "harness/protocol/flight_record.hpp"
#include "harness/protocol/world_plan.hpp"
#include "reports/merge/case_evidence.hpp"
#include "reports/merge/outcome_rules.hpp"
#include "reports/merge/rank_stream.hpp"
#include "reports/merge/report_order.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

class Merger {
 public:
  explicit Merger(RunHead head);

  /// Closes the open world, and opens the next one. `cases` are the plan's cases, in its order. `number` is the number
  /// of its folder. By default, it is the next number after all folders.
  void open_world(const protocol::WorldPlan& plan, std::vector<protocol::CaseInfo> cases,
                  std::vector<protocol::Ending> endings, std::optional<int> number = {});

  /// Adds a world that `plan` skips. All its cases are skipped on all ranks, for the plan's reason. No world is open
  /// afterwards.
  void skip_world(const protocol::WorldPlan& plan, std::vector<protocol::CaseInfo> cases);

  /// Adds a world that a run with --fail-fast did not begin, after a failed case. No world is open afterwards.
  void leave_out_world(const protocol::WorldPlan& plan, std::vector<protocol::CaseInfo> cases);

  /// Adds a world that was planned, and of which nothing can be read. `defect` says so. `number` is the number of its
  /// folder, if that is known. No world is open afterwards.
  void lose_world(const protocol::WorldPlan& plan, std::vector<protocol::CaseInfo> cases, std::string defect,
                  std::optional<int> number = {});

  /// Explains why the open world ended early, from its flight record.
  void explain(const protocol::FlightSnapshot& flight);

  /// Adds sentences about the NCCL calls of the open world's ranks. They are kept if one of its cases goes wrong.
  void add_nccl_calls(std::vector<std::string> sentences);

  /// Adds a sentence about a defect in the open world's evidence.
  void add_defect(std::string defect);

  /// Adds the stream of the open world's next rank, from 0. A rank without an added stream has none. Throws
  /// std::logic_error without an open world, and for more streams than ranks.
  void add(RankStream stream);

  /// The number of first cases of the open world for which there is evidence. All its streams have been added.
  std::size_t answered() const;
  /// Why the open world's ranks left together, wherever they were in its plan. Empty: they reached its end. All its
  /// streams have been added.
  const std::string& cut_short() const { return cut_short_; }
  /// True if the ranks left because the last case changed its process. The machine is then not to blame.
  bool is_cut_by_case() const { return is_cut_by_case_; }
  /// True if --fail-fast ends the run: a case of this world or of an earlier world did not pass, and no waiver excuses
  /// it. All streams of the open world have been added.
  bool has_failed_fast();
  /// One sentence: why the open world, or the world that was closed last, ended early. Empty: it did not.
  const std::string& explanation() const { return report_.worlds.back().explanation; }
  /// The hosts of the open world, or of the world that was closed last. All its streams have been added.
  const Placement& placement() const { return report_.worlds.back().placement; }
  /// Limits the open world to its first `first` cases. Another world runs the rest.
  void keep(std::size_t first);
  /// Closes the open world. Returns its cases in the order of its plan, with the head's waivers applied. The result is
  /// valid until the next call.
  std::span<const CaseResult> close_world();

  /// Returns the report, with the head's waivers applied, and leaves the merger empty. Worlds and cases have the order
  /// of report_order.hpp.
  Report finish();

 private:
  struct Identity {
    int rank;
    std::string suite_version, build;
  };
  struct Position {
    bool ranks_differ = false;
    MeasurementMerge measurements;
    std::vector<int> waiting;  ///< Ranks that were stopped before it. They are released if another rank began it.
  };

  std::string rejection_of(const RankStream& stream, int rank);
  /// Adds the rank to the placement of the open world. Converts its times to the clock of the world's first host.
  void place(RankStream& stream);
  void take_case(StreamedCase& streamed, int rank, std::size_t position);
  /// The place of the end of a rank's stream.
  struct StreamEnd {
    std::size_t next = 0;  ///< the first position that the rank has not ended
    bool is_inside = false;  ///< The stream stops inside the case at `next`.
    /// The case before `next` left its process changed, for instance by a thread. It gets the blame if the process then
    /// dies.
    bool left_changes = false;
  };
  void apply_ending(const RankStream& stream, int rank, StreamEnd end);
  /// Applies the rules of endings to the rank's case, if the plan has this position. Returns the outcome, as the rules.
  /// `where`: the end's place in the case, for the reason.
  std::optional<protocol::Outcome> decide_by_ending(const protocol::Ending& ending, std::size_t position,
                                                    FactSet<EndingFact> facts, std::string_view where);
  CaseResult& at(std::size_t position) { return report_.cases[first_case_ + position]; }
  RankOutcome& outcome_of(int rank, std::size_t position) { return at(position).ranks[static_cast<std::size_t>(rank)]; }
  void set(int rank, std::size_t position, protocol::Outcome outcome, std::string reason);
  void defect(int rank, std::string_view sentence);
  /// Decides the verdicts of the open world's cases, and applies the waivers. Only the first call counts.
  void judge();
  /// Makes the explanation of the open world again if its ranks are on several hosts, which only their streams say.
  void name_hosts();
  /// Marks the cases that --fail-fast left out. Call it when the worlds are sorted: the note names their first failure.
  void mark_left_out();

  Report report_;
  std::vector<WorldPlace> places_;  ///< by world, in the order of addition
  // The open world
  bool is_open_ = false;
  protocol::WorldPlan plan_;
  std::size_t first_case_ = 0;  ///< the index of its first case in report_.cases
  std::vector<Position> positions_;
  std::vector<std::optional<protocol::Ending>> endings_;  ///< by rank
  std::optional<Identity> identity_;
  std::optional<protocol::FlightSnapshot> flight_;  ///< of the open world
  std::vector<std::optional<protocol::ClockPair>> clocks_;  ///< by host of the open world: its first rank's
  int next_rank_ = 0;
  bool a_rank_died_ = false;
  bool a_rank_refused_ = false;  ///< a rank ended with the code for usage or for infrastructure, in no case
  bool interrupted_ = false;  ///< by the user, and no rank died by itself
  std::string cut_short_;
  bool is_cut_by_case_ = false;
  bool none_started_ = false;  ///< no rank was started, all for the same reason
  bool is_judged_ = false;
  bool has_failed_here_ = false;  ///< a case of the open world failed, and no waiver excuses it
  bool has_failed_fast_ = false;  ///< the same for all worlds so far whose plans are for --fail-fast
};

}  // namespace shardproof::reports

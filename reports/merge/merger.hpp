// From what ranks streamed and how their processes ended to a report, one rank's stream in memory at a time. Pure.
//
// How a rank's evidence of a case becomes its outcome:
//   * A stream counts only if its first line is of this rank, world size, nonce and protocol, and of the same suite version and build as the
//     first stream that counts; else every case is `missing` on this rank.
//   * A case that the stream ended has the outcome it was given, with these exceptions: one with a failed assertion is `failed` whatever its
//     end says; one whose id is not the plan's is `missing`, and the case is `disagreed`; a pass with a name measured twice is an `error`.
//   * The process's ending outranks the stream. A rank that died (by a signal, its deadline, a nonzero exit, any exit inside a case, or one
//     by which its world ended) is `crashed` (deadline: `hung`) in the case it was in by its launcher's word, and in the case that its stream
//     left open; outside any case, in the first one that it has not ended. A rank stopped because of another is `released` there.
//   * Exits outside a case with the codes for usage (2) and infrastructure (3), and any nonzero exit outside a case in a world where another
//     rank died first, are consequences: `missing`.
//   * All else is `missing`: a pass needs every rank's own word.
//   * A rank that says why all of its world left where it was in the plan answers for no later case, however its process ended then.
//   * In a world that was interrupted, a case that was cut short says nothing: it is `not_run`.
// A sentence about each defect goes to the world.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/flight_record.hpp"
#include "harness/protocol/world_plan.hpp"
#include "reports/merge/rank_stream.hpp"
#include "reports/model/report.hpp"

namespace shardproof::reports {

class Merger {
 public:
  /// A report keeps so many failures of one case, the first ones in time.
  static constexpr std::size_t failures_kept = 200;

  explicit Merger(RunHead head);

  /// The next world, and the closing of the one before. `cases` as in WorldRecord; `number`: of its folder, by default the one after the last.
  void open_world(const WorldPlan& plan, std::vector<CaseInfo> cases, std::vector<Ending> endings, std::optional<int> number = {});

  /// A world that `plan` says is skipped: so are its cases, on all ranks, for its reason. No world is open after it.
  void skip_world(const WorldPlan& plan, std::vector<CaseInfo> cases);

  /// Why the open world ended early, by its flight record.
  void explain(const FlightSnapshot& flight);

  /// What the open world's ranks asked of NCCL, in sentences, which are kept if a case of it goes wrong.
  void tell_nccl(std::vector<std::string> sentences);

  /// Of the open world's evidence: a sentence.
  void add_defect(std::string defect);

  /// The stream of the open world's next rank, from 0. Ranks whose streams are not added have none. Throws std::logic_error without a world
  /// and for more streams than ranks.
  void add(RankStream stream);

  /// Of the open world, whose streams have all been added: how many of its first cases it says anything about.
  std::size_t answered() const;
  /// Of the open world, whose streams have all been added: why its ranks left together, wherever they were in its plan. Empty: they had come
  /// to its end.
  const std::string& cut_short() const { return cut_short_; }
  /// The open world answers for so many of its first cases; another one is to run the rest.
  void keep(std::size_t first);
  /// Closes the open world; its cases, in the order of its plan, with the waivers of the head applied. Valid until the next call.
  std::span<const CaseResult> close_world();

  /// Worlds stand as planned, in whatever order they were added: a world, then those that went on behind it; those that try cases again stand
  /// last, by attempt and case. With the waivers of the head applied. Leaves the merger empty.
  Report finish();

 private:
  struct Identity {
    int rank;
    std::string suite_version, build;
  };
  struct Position {
    bool different_case = false;
    int measured_by = -1;  ///< the first passed rank: its measurements are those that others are compared with
    std::vector<int> waiting;  ///< ranks that were stopped before it: released if another began it
  };

  std::string why_untrusted(const RankStream& stream, int rank);
  void take_case(StreamedCase& streamed, int rank, std::size_t position);
  void take_failures(CaseResult& result, StreamedCase& streamed, int rank, bool released);
  void take_measurements(CaseResult& result, Position& position, const StreamedCase& streamed, int rank, bool passed);
  void apply_ending(const RankStream& stream, int rank, std::size_t first_unended, bool is_inside);
  void apply_death(const Ending& ending, int rank, std::size_t first_unended, bool is_inside);
  CaseResult& at(std::size_t position) { return report_.cases[first_case_ + position]; }
  void put_in_order();
  RankOutcome& outcome_of(int rank, std::size_t position) { return at(position).ranks[static_cast<std::size_t>(rank)]; }
  void set(int rank, std::size_t position, Outcome outcome, std::string reason);
  void defect(int rank, std::string_view sentence);

  /// Where a world belongs among the others.
  struct Place {
    int attempt = 0, planned = -1;
    std::size_t left = 0;  ///< cases from its first one on to the end of the planned world
    std::string first_case;  ///< of one that tries again
    bool has_folder = false;
  };

  Report report_;
  std::vector<Place> places_;  ///< by world, as they were added
  // The open world
  bool is_open_ = false;
  WorldPlan plan_;
  std::size_t first_case_ = 0;  ///< its first in report_.cases
  std::vector<Position> positions_;
  std::vector<std::optional<Ending>> endings_;  ///< by rank
  std::optional<Identity> identity_;
  int next_rank_ = 0;
  bool somebody_died_ = false;
  bool interrupted_ = false;  ///< by the user, and nobody died
  std::string cut_short_;
  bool never_began_ = false;  ///< not one of its ranks was started, all for one reason
};

}  // namespace shardproof::reports

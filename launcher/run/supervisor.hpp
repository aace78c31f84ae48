// Supervises one world: a state machine without I/O. Events come in as values, with their time. Actions go out, and the
// running world (world.cpp) carries them out. A world runs. If ranks are overdue, evidence is collected while their
// processes live. At the end, the ranks are released, then terminated, then killed, and then abandoned.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/control/abort.hpp"
#include "harness/control/control_plane.hpp"
#include "harness/control/doorbell.hpp"  // Deadline
#include "harness/protocol/ending.hpp"
#include "launcher/process/process.hpp"
#include "launcher/run/classify_ending.hpp"

namespace shardproof::launcher {

/// What the launcher sees of a rank.
struct RankView {
  control::Progress progress;
  std::string place;  ///< as in `in mine/case[W=2]`
  bool lacked_memory = false;  ///< it was killed, probably because memory ran out (OomKills)
  std::string reason;  ///< why another process ended the rank, as in protocol::Ending
  bool was_asked = false;  ///< its guard passed on a signal, and a signal ended it
};

/// A rank to blame for a deadline.
struct Overrun {
  int rank = 0;
  std::string text;  ///< what it has not done in time
  control::Progress progress;
};

namespace action {

/// Look for overdue ranks, and report them as `ranks_checked`.
struct CheckRanks {};
/// Keep the ranks' flight records. With `anew`, replace the records that are kept.
struct KeepFlightRecords {
  bool anew = false;
};
/// Keep what the ranks have begun since then.
struct KeepLaterProgress {};
/// The ranks go on: their records are no evidence.
struct DropFlightRecords {};
/// Collect evidence about these ranks, and report its progress as `evidence_progressed`.
struct CollectEvidence {
  std::vector<int> overdue;
};
/// End the collection now.
struct StopEvidence {};
/// Keep the last output of the rank as its last words.
struct KeepOutput {
  int rank = 0;
};
/// Release every rank from each wait, and report that as `released`.
struct DoomWorld {
  control::Abort abort;
};
/// Send a signal to all ranks.
struct SignalRanks {
  int number = 0;
};
/// Give up the ranks that still live, and report each as `rank_abandoned`.
struct AbandonRanks {};

}  // namespace action

using Action = std::variant<action::CheckRanks, action::KeepFlightRecords, action::KeepLaterProgress,
                            action::DropFlightRecords, action::CollectEvidence, action::StopEvidence,
                            action::KeepOutput, action::DoomWorld, action::SignalRanks, action::AbandonRanks>;
/// In the order in which the launcher carries them out.
using Actions = std::vector<Action>;

class Supervisor {
 public:
  enum class Phase : std::uint8_t { running, collecting_evidence, leaving, terminating, killing };

  /// The time for released ranks to leave. They leave within milliseconds, or not at all. On few cores, many ranks take
  /// longer to write their last line.
  static std::chrono::milliseconds leaving_limit(int world_size);
  /// The time for a rank after SIGTERM: its handlers may have something to save.
  static constexpr std::chrono::milliseconds saving_limit{500};
  /// The time between two checks of overdue ranks. A rank that has moved meanwhile is slow, not stuck.
  static constexpr std::chrono::milliseconds second_check{100};

  explicit Supervisor(int world_size);

  Phase phase() const { return phase_; }
  /// Whether the world's end has begun.
  bool is_ending() const { return phase_ >= Phase::leaving; }
  /// The time of the next `deadline_passed`.
  control::Deadline deadline() const { return deadline_; }

  // -- Events --------------------------------------------------------------------------------------------------------

  /// All ranks run. No rank is overdue before `next`.
  void started(control::Deadline next) { deadline_ = next; }
  /// The ranks from `first` on could not be started.
  Actions start_failed(int first, const std::string& why, control::Deadline now);
  /// These ranks were not started, and will not be. `output`: further lines about the reason.
  Actions ranks_unstarted(const std::vector<int>& ranks, const std::string& why, const std::string& output,
                          control::Deadline now);
  /// A rank has doomed the world. It gives up, and may end after others.
  Actions doom_seen(const control::Abort& abort, control::Deadline now);
  Actions rank_ended(int rank, const Exit& exit, const RankView& view, control::Deadline now);
  /// The process of all ranks ended. `running`: the ranks that did not wait for others.
  Actions process_ended(const Exit& exit, const std::vector<RankView>& ranks, const std::vector<int>& running,
                        control::Deadline now);
  /// The launcher looked for overdue ranks. After evidence has been collected, `overruns` are the ranks to blame. No
  /// other rank is overdue before `next`.
  Actions ranks_checked(const std::vector<int>& overdue, const std::vector<Overrun>& overruns, control::Deadline next,
                        control::Deadline now);
  /// `until`: the evidence needs attention then. Empty: it is complete.
  Actions evidence_progressed(std::optional<control::Deadline> until, control::Deadline now);
  Actions deadline_passed(control::Deadline now);
  /// A signal arrived, or an error ends the run. The second time, the ranks that still run are killed at once.
  Actions interrupted(const std::string& why, control::Deadline now);
  /// A rank did not end after SIGKILL.
  void rank_abandoned(int rank, std::int64_t process, std::int64_t position);
  /// DoomWorld has been carried out. From now on, the ranks have time to leave: the launcher may have waited for the
  /// flight records of other hosts before.
  void released(control::Deadline now) { deadline_ = now + leaving_limit(static_cast<int>(ranks_.size())); }
  void output_kept(int rank, std::string last_words) { at(rank).ending.last_words = std::move(last_words); }
  /// The world is over. If no rank is blamed yet, blames the late ranks of a deadline. Blames no rank if shared memory
  /// was full.
  Actions ended();

  // -- Result --------------------------------------------------------------------------------------------------------

  /// By rank.
  std::vector<protocol::Ending> endings() const;
  bool is_interrupted() const { return is_interrupted_; }
  /// Why the world ended early. Empty reason: it did not.
  std::optional<control::AbortReason> doom_reason() const { return doom_reason_; }
  const std::string& doom_text() const { return doom_text_; }
  /// Why ranks could not do their work. `logs`: where their output is.
  std::string infrastructure_error(const std::string& logs) const;

 private:
  struct RankState {
    protocol::Ending ending;
    std::string overrun;  ///< the work that it has not done in time
    std::int64_t overdue_in = -1;  ///< the position of its case at that time
    bool had_to_be_ended = false;  ///< it did not leave by itself
    bool has_begun = false;  ///< its first case
  };
  struct InfrastructureError {
    std::string text;
    int rank = -1;  ///< the rank whose last words belong to it; -1: none
    bool has_output = false;
  };

  RankState& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  Actions doom(const control::Abort& abort, control::Deadline now);
  Actions blame(const std::vector<Overrun>& overruns, control::Deadline now);
  Actions blame_process(const Exit& exit, const std::vector<RankView>& ranks, const std::vector<int>& running,
                        control::Deadline now);
  Measure measure() const;
  action::KeepOutput record_overrun(RankState& rank) const;

  Phase phase_ = Phase::running;
  control::Deadline deadline_ = control::Deadline::max();
  control::Deadline first_check_;  ///< the time at which ranks were found overdue
  std::vector<RankState> ranks_;
  int doomed_by_ = -1;  ///< the rank that doomed the world itself
  std::string doom_text_;
  std::optional<control::AbortReason> doom_reason_;
  bool is_interrupted_ = false;
  InfrastructureError infrastructure_error_;
};

}  // namespace shardproof::launcher

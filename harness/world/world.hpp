// One rank's place in its world: it joins once, leaves once, and between the two starts and ends cases together with its peers. This room
// knows the control page, the file store, the fabric and the subject; it knows neither Catch2 nor how cases are declared (harness/cases),
// and nothing of launchers beyond the plan that it is given.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/protocol/case_info.hpp"
#include "harness/protocol/trace.hpp"
#include "harness/protocol/world_plan.hpp"
#include "harness/rendezvous/file_store.hpp"
#include "harness/world/premises.hpp"
#include "harness/world/rank.hpp"
#include "harness/world/watched_group.hpp"

namespace shardproof {

class EventStream;
class Platforms;
class ShmWorld;
class Subject;

/// The ranks of a world are not of one kind, or the plan asks for what this program does not have. The text names both ranks and both
/// values.
class WorldMismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What a process brings into its world. All of it must be the same on all ranks.
struct Membership {
  std::string suite_version;
  std::string build;  ///< of the binary
  std::string cases;  ///< a digest of all ids that it declares
  std::shared_ptr<Subject> subject;  ///< nullptr where the program has none
};

/// Thrown by Rank::skip and caught outside the body. No std::exception, so that a body's own handlers let it pass.
struct CaseSkipped {};

/// What a rank has noted of the case that it is in.
struct CaseNotes {
  const CaseInfo* info = nullptr;
  std::uint64_t seed = 0;
  bool seed_used = false;
  std::optional<std::string> skip;  ///< this rank asked for it
  std::vector<std::vector<std::string>> scopes;  ///< clauses of each open ClauseScope, the innermost last
  std::vector<std::string> combined;  ///< features and ingredients that the case says it plays together
  std::size_t left_alive = 0;  ///< bytes that played scenarios left behind
  std::vector<fact::Allocated> left_buffers;  ///< in which those bytes are
  std::vector<scenario::Scenario> played;
  GroupWatch calls;
};

class World {
 public:
  /// Joins: returns when all ranks of the plan are there and of one kind. Throws WorldMismatch; Released when the world was doomed
  /// meanwhile; DeadlineExceeded naming the ranks that did not come in time. A launcher's own clock for that is to ring before.
  /// The rank's event stream begins before all that. `premises`: of ranks that are threads of one process, the same for all of them.
  World(WorldPlan plan, int rank, Membership membership, std::chrono::milliseconds for_others_to_come = 2 * joining_limit,
        Premises premises = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  const WorldPlan& plan() const { return plan_; }
  EventStream& stream() { return *stream_; }
  /// What this world or its subject lacks for the case; empty: nothing.
  std::string missing(const CaseInfo& info) const;
  /// The case asks for ranks that are threads, and the ranks of this world are processes.
  bool lacks_threads(const CaseInfo& info) const { return info.on_threads && plan_.fabric != thread_fabric; }

  /// All ranks call it equally often. Throws Released when the world is doomed; a rank that does not come in time dooms it.
  std::vector<ControlPage::Ballot> agree(const ControlPage::Ballot& mine);

  /// From here on the case at this place of the plan runs: waits belong to its epoch, and the launcher's clock for it is running.
  void begin(const CaseInfo& info, std::uint64_t position);
  /// Ends the running case for every rank. The first to say so is the cause.
  void abort(AbortReason reason, std::string_view text);
  std::optional<Abort> aborted() const { return control_.aborted(epoch_); }
  /// Ends the world for every rank: this one cannot go on in it.
  void doom(AbortReason reason, std::string_view text);
  /// It has come to its first case.
  bool has_begun() const { return epoch_ > 0; }
  CaseNotes& notes() { return notes_; }
  Rank& self() { return self_; }
  Reply take_teardown_failure();  ///< of the subject's trainers; ok without a subject
  /// What the device has to say of the end of what was played on it; empty: nothing.
  std::string device_complaint();
  /// Why this process can run no further case; empty: it can.
  std::string defect() const;
  /// The case has failed on this rank: leaves what it played as evidence.
  void keep_scenarios();
  /// This rank is through with the case and only waits for the others to be: the launcher's clock no longer runs for it.
  void body_ended();
  void case_failed();

  /// Meets all ranks a last time. What is said afterwards is that this rank left in order; `cut_short`: why no case could follow,
  /// where it is not that there is none.
  void leave(std::string cut_short = {});

 private:
  friend class Rank;

  std::uint64_t position() const { return epoch_ == 0 ? 0 : epoch_ - 1; }
  Deadline give_up_at(Deadline now) const;
  void meet(std::chrono::milliseconds for_others_to_come);
  std::string subject_identity() const;
  std::unique_ptr<Platforms> make_platforms();
  void check_case();
  void write_trace(const Trace& trace);
  scenario::Run play(const scenario::Scenario& scenario, Platform& platform);

  WorldPlan plan_;
  int rank_;
  Membership membership_;
  std::unique_ptr<EventStream> stream_;
  Premises premises_;
  ControlPage& control_;
  FileStore store_;
  Progress progress_;
  std::uint32_t epoch_ = 0;
  CaseNotes notes_;
  std::unique_ptr<ShmWorld> making_;  ///< until all ranks have joined their group
  std::shared_ptr<Group> group_;
  std::unique_ptr<Platforms> platforms_;
  Rank self_;
};

}  // namespace shardproof

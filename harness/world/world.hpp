// One rank's membership in its world. The rank joins once and leaves once. Between the two it starts and ends cases
// together with its peers.
//
// A World knows the interfaces of control plane and fabric, and the file store. It does not know Catch2, nor how cases
// are declared (harness/cases), nor engines and devices: a program adds those by a CaseService. It knows launchers only
// by their plan.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "harness/control/control_plane.hpp"
#include "harness/protocol/case_info.hpp"
#include "harness/protocol/placement.hpp"
#include "harness/protocol/world_plan.hpp"
#include "harness/rendezvous/file_store.hpp"
#include "harness/world/case_service.hpp"
#include "harness/world/connection.hpp"
#include "harness/world/host.hpp"
#include "harness/world/rank.hpp"
#include "harness/world/watched_group.hpp"

namespace shardproof::control {
class FlightRing;
}

namespace shardproof::world {

class EventStream;

/// The ranks of a world are of different kinds, or the plan asks for something that this program does not have. The
/// text names both ranks and both values.
class WorldMismatch : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The identity that a process brings into its world. All of it must be the same on all ranks.
struct Membership {
  std::string suite_version;
  std::string build;  ///< of the binary
  std::string cases;  ///< a digest of all ids that it declares
  Host host = this_host();
  std::function<std::unique_ptr<CaseService>()> make_service = [] { return std::make_unique<CaseService>(); };
};

/// Thrown by Rank::skip and caught outside the body. It does not derive from std::exception, so that a body's own
/// handlers do not catch it.
struct CaseSkipped {};

/// A rank's notes on its current case.
struct CaseNotes {
  const protocol::CaseInfo* info = nullptr;
  std::uint64_t seed = 0;
  bool seed_used = false;
  std::optional<std::string> skip;  ///< the reason, if this rank asked to skip
  /// The clauses of each open ClauseScope. The innermost scope is last.
  std::vector<std::vector<std::string>> scopes;
  /// Features and ingredients that the case plays together, as it declares them.
  std::vector<std::string> combined;
  GroupWatch calls;
};

class World {
 public:
  using Connector = std::function<Connection(const protocol::WorldPlan&)>;

  /// Joins the world. Returns when all ranks of the plan are there and of one kind. The rank's event stream begins
  /// first. Then `connect` reaches the other ranks, and the service is made.
  ///
  /// Throws
  /// - WorldMismatch if the ranks differ,
  /// - Released if the world was doomed meanwhile, also by this rank, because there was no room for shared memory,
  /// - DeadlineExceeded with the ranks that did not come in time. The launcher's own limit for joining must be shorter.
  World(protocol::WorldPlan plan, int rank, Membership membership, const Connector& connect,
        std::chrono::milliseconds for_others_to_come = 2 * protocol::joining_limit);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  const protocol::WorldPlan& plan() const { return plan_; }
  EventStream& stream() { return *stream_; }
  const std::shared_ptr<Group>& group() const { return group_; }
  /// Which rank is on which host.
  const Placement& placement() const { return placement_; }
  CaseService& service() { return *service_; }
  /// Why the case cannot run here: what this world or its service lacks. Empty: it can.
  std::string missing(const protocol::CaseInfo& info) const;
  /// Why the case cannot run in this world: it asks for threads or for hosts. Empty: it can.
  std::string unsuitable_for(const protocol::CaseInfo& info) const;

  /// All ranks must call it equally often. Throws Released if the world is doomed. A rank that does not come in time
  /// dooms the world.
  std::vector<control::Ballot> agree(const control::Ballot& mine);

  /// Starts the case at this position of the plan. Later waits belong to its epoch, and the launcher's clock for the
  /// case runs.
  void begin(const protocol::CaseInfo& info, std::uint64_t position);
  /// Ends the running case for every rank. The first call is the recorded cause.
  void abort(control::AbortReason reason, std::string_view text);
  std::optional<control::Abort> aborted() const { return control_.aborted(epoch_); }
  /// Ends the world for every rank, because this rank cannot go on in it.
  void doom(control::AbortReason reason, std::string_view text);
  /// Whether this rank has begun its first case.
  bool has_begun() const { return epoch_ > 0; }
  CaseNotes& notes() { return notes_; }
  Rank& self() { return self_; }
  /// This rank has finished the case, and only waits for the other ranks. The launcher's clock no longer runs for it.
  void body_ended();
  void case_failed();

  /// Meets all ranks a last time. Then reports that this rank left in order. `cut_short`: why no case could follow.
  /// Empty: all cases ran. `is_by_case`: the last case is the reason, and a fresh process can go on.
  void leave(std::string cut_short = {}, bool is_by_case = false);

  // -- For services that wait outside of the fabric -------------------------------------------------------------------

  /// Of the current case, in the plan.
  std::uint64_t position() const { return epoch_ == 0 ? 0 : epoch_ - 1; }
  /// Of the current case. 0: no case has begun.
  std::uint32_t epoch() const { return epoch_; }
  /// When a wait that begins now must give up.
  control::Deadline give_up_at(control::Deadline now) const;
  /// Throws the error that ends the running case for every rank: Released or Deadlock, or Mismatch for a disagreement,
  /// which is every rank's own error. Returns if no error ends the case.
  void check_case();
  control::FlightRing& flight() const { return control_.flight(rank_); }

 private:
  void meet(std::chrono::milliseconds for_others_to_come);
  [[noreturn]] void leave_without_room(std::string_view why);

  protocol::WorldPlan plan_;
  int rank_;
  Membership membership_;
  std::unique_ptr<EventStream> stream_;
  Connection connection_;
  control::ControlPlane& control_;
  rendezvous::FileStore store_;
  control::Progress progress_;
  std::uint32_t epoch_ = 0;
  Placement placement_;  ///< complete when all ranks have met
  CaseNotes notes_;
  std::unique_ptr<fabric::Fabric> making_;  ///< until all ranks have joined their group
  std::shared_ptr<Group> group_;
  Rank self_;
  std::unique_ptr<CaseService> service_;  ///< destroyed before the group that it uses
};

}  // namespace shardproof::world

// PlayService adds the engine under test and its devices to a rank. It knows what a case played, and what the engine
// left.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "harness/device/platform.hpp"
#include "harness/player/holding.hpp"
#include "harness/player/run.hpp"
#include "harness/protocol/trace.hpp"
#include "harness/scenario/scenario.hpp"
#include "harness/subject/subject.hpp"
#include "harness/world/case_service.hpp"
#include "harness/world/rank.hpp"

namespace shardproof::player {

class PlayService final : public world::CaseService {
 public:
  /// nullptr: the program has no subject. Then cases can use devices, but play nothing.
  /// `keeps_threads`: the runtime of the subject keeps threads (Subject::keeps_threads).
  explicit PlayService(std::unique_ptr<Subject> subject, bool keeps_threads = false);
  ~PlayService() override;

  /// The service of this rank's program. Throws std::logic_error if it has none.
  static PlayService& of(const Rank& rank);

  std::string subject() const override;
  void join(world::World& world) override;
  std::string missing(const protocol::CaseInfo& info) const override;
  void begin_case() override;
  world::CaseLeftovers take_leftovers() override;
  std::string defect() const override;
  bool has_runtime() const override;
  bool is_of_runtime(pid_t thread) const override;
  /// Writes the played scenarios.
  void keep_evidence() override;

  std::unique_ptr<Platform> make_platform(Rank& rank, const CostModel& costs, const DeviceOptions& options);
  Run play(Rank& rank, const Scenario& scenario);
  HeldRun play(Rank& rank, const Scenario& scenario, const std::vector<Hold>& holds);

 private:
  std::unique_ptr<Platform> stage(Rank& rank, const Scenario& scenario);
  Run play_on(Platform& platform, const Scenario& scenario);
  void write_trace(const Trace& trace) const;

  std::unique_ptr<Subject> subject_;
  const bool keeps_threads_;
  world::World* world_ = nullptr;
  std::unique_ptr<Platforms> platforms_;
  // Of the current case:
  std::vector<Scenario> played_;
  std::size_t live_bytes_ = 0;                   ///< Bytes that played scenarios left allocated.
  std::vector<fact::Allocated> live_buffers_;  ///< The buffers of those bytes.
  std::vector<pid_t> threads_of_runtime_;  ///< They have appeared while the subject played.
};

}  // namespace shardproof::player

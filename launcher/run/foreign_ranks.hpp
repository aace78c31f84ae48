// The ranks of a world that a command of the user starts (`run --launcher 'mpirun -n {ranks}'`). The command starts a
// guard for each rank (guard.hpp). Guards connect to this object, and report the ends of their ranks on the control
// page. A running world (run/world.cpp) owns it. foreign_command.hpp has the command, and foreign_hosts.cpp has what
// concerns hosts.
//
// The command has to start exactly one guard for each rank, in time. Only then the guards start their ranks. Otherwise
// all ranks are unstarted, for a reason that the user can repair.
//
// For ranks on GPUs, each guard lists the GPUs that it finds, and this object gives one of them to its rank. The
// launcher's own host may have none. Each guard looks for itself, because Slurm may show each task others.
//
// If all guards are on this host, their ranks use the launcher's control page. Otherwise the world is *spread*: one
// guard of each host makes a page there, and connects it to the hub in this object. The launcher's own page is
// connected, too, and shows all ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/control/link/hub.hpp"
#include "harness/control/link/page_link.hpp"
#include "harness/control/page_watch.hpp"
#include "harness/protocol/gpu_listing.hpp"
#include "harness/protocol/host_identity.hpp"
#include "harness/protocol/rank_end.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/process/gpus.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/run/foreign_command.hpp"
#include "launcher/run/guard_link.hpp"
#include "launcher/run/ranks.hpp"
#include "launcher/run/world.hpp"

namespace shardproof::launcher {

class ForeignRanks final : public Ranks {
 public:
  /// Borrows all arguments. With `launch.gpus`, adds the facts about the ranks' GPUs to `plan`, before ranks start.
  ForeignRanks(protocol::WorldPlan& plan, const protocol::WorldDirectory& directory, const WorldLaunch& launch,
               control::ControlPage& page, Poller& poller);
  ~ForeignRanks() override;

  std::optional<Failure> start() override;
  bool is_one_process() const override { return false; }
  bool is_alive(int rank) const override { return at(rank).state != State::ended; }
  bool all_have_ended() const override { return alive_ == 0; }
  bool is_over() const override {
    return alive_ == 0 && !command_.runs() && links_.empty() && unstarted_.ranks.empty();
  }
  pid_t pid(int rank) const override;
  control::Deadline deadline() const override;
  bool shows_end(const std::vector<std::uint64_t>& ready) const override;
  std::vector<Ended> collect(const std::vector<std::uint64_t>& ready) override;
  Unstarted take_unstarted() override;
  void signal_all(int number) noexcept override;
  std::vector<Abandoned> abandon() override;

  std::optional<std::vector<protocol::FlightRecord>> flight_records() override;
  bool guards_collect_evidence() const override { return is_spread(); }
  void collect_evidence() override;
  std::optional<control::Deadline> evidence_deadline() const override;
  bool guard_saw_end(int rank) const override {
    return is_spread() && (at(rank).reported_end || !has_lost_guard(rank));
  }
  std::optional<std::filesystem::path> store() const override;
  void release() override;

 private:
  enum class State : std::uint8_t {
    awaited,  ///< No guard of the rank has come.
    joined,
    ended,
  };
  struct Rank {
    State state = State::awaited;
    std::uint64_t link = 0;  ///< its key in `links_`
    pid_t process = 0;
    protocol::HostIdentity identity;  ///< The identity of its host.
    std::optional<protocol::GpuListing> gpus;  ///< Empty: its guard has not listed them.
    std::size_t host = 0;  ///< In a spread world: the place of its host in `hosts_`.
    std::optional<protocol::RankEnd> reported_end;  ///< In a spread world, the guard reports it to the launcher, too.
    bool owes_evidence = false;  ///< The guard takes the rank's stacks.
    bool has_saved_crash = false;  ///< The guard has reported the end, and the stack of a crash.
    control::Deadline guard_lost_at = control::Deadline::max();
    /// The guard ended after another host had ended the world: mpirun kills all guards then.
    bool follows = false;
  };
  struct Link {
    GuardLink link;
    int rank = -1;  ///< -1: the guard has not named its rank
  };
  /// A host of a spread world.
  struct Host {
    std::string name;
    std::vector<int> ranks;  ///< The guard of the first one is the lead guard.
    std::filesystem::path rendezvous;  ///< Empty: the lead guard has not made it.
    std::optional<control::link::HostLost> lost;
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  void accept_guards();
  void read_reports(std::uint64_t key);
  void handle(const GuardReport& report, std::uint64_t key);
  void refuse_second(const GuardReport& report, std::uint64_t key);
  bool is_spread() const { return !hosts_.empty(); }
  void take_gpus(int rank, const GuardReport& report);
  void start_if_complete();
  void assign_gpus();
  bool are_on_one_host() const;
  bool are_on_this_host() const;
  void spread();
  std::string refusal_of_fabric() const;
  void start_ranks();
  void advance_hub();
  void take_lost_hosts();
  void lose_host(Host& host, const control::link::HostLost& lost);
  bool has_guards(const Host& host, int except = -1) const;
  bool is_lost_with_host(int rank) const;
  bool is_lost_by_command(int rank) const;
  bool was_released(int rank) const;
  void take_progress_from_stream(int rank);
  std::optional<Ended> find_lost(int rank, control::Deadline now);
  Ended ended(const protocol::RankEnd& end) const;
  void ask_to_leave(const Host& host);
  void take_end_of_command();
  void check_deadlines();
  bool all_have_saved() const;
  void close_links();
  void drop(std::uint64_t key);
  void end_rank(int rank);
  bool has_lost_guard(int rank) const { return !links_.contains(at(rank).link); }
  std::string reason_of(const protocol::RankEnd& end) const;
  std::vector<int> awaited() const;
  /// The ranks whose guards have joined and not listed their GPUs.
  std::vector<int> without_gpus() const;
  /// Names what the start of the ranks waits for: guards, their lists of GPUs, or pages of hosts.
  std::string what_has_not_come() const;
  /// `the guard of rank 1 on n1 has`, `the guards of rank 0 on n0, rank 1 on n1 have`
  std::string guards_text(const std::vector<int>& ranks) const;
  void give_up(const std::string& why, const std::vector<int>& ranks);
  void give_up_without_guard(int rank);

  // The keys of the poller, above all rank numbers and below those of the evidence.
  static constexpr std::uint64_t command_key = std::uint64_t{1} << 24, hub_key = command_key + 1,
                                 watch_key = command_key + 2, page_link_key = command_key + 3,
                                 first_link = command_key + 16;
  /// Before the start, from the end of a guard to the decision that no end of the command explains it.
  static constexpr std::chrono::seconds following{2};
  /// In a spread world, from the end of a guard's connection to the decision what was lost: the guard, or its whole
  /// host. The processes of a host that is shut down do not end all at once.
  static constexpr std::chrono::milliseconds settling{100};

  protocol::WorldPlan& plan_;
  const protocol::WorldDirectory& directory_;
  const WorldLaunch& launch_;
  control::ControlPage& page_;
  Poller& poller_;
  std::optional<control::PageWatch> watch_;
  const protocol::HostIdentity here_;
  std::string key_;
  std::optional<control::link::Hub> hub_;
  std::optional<control::link::PageLink> page_link_;  ///< of this host's page, if the world is spread
  std::vector<Host> hosts_;  ///< Empty: the world is not spread, or not all guards have come.
  std::size_t seen_lost_hosts_ = 0;
  control::Deadline evidence_by_ = control::Deadline::max(), saved_by_ = control::Deadline::max();
  ForeignCommand command_;
  std::vector<Rank> ranks_;
  std::vector<Environment> gpu_variables_;  ///< By rank. Empty: no GPU is assigned.
  std::map<std::uint64_t, Link> links_;  ///< to guards
  std::uint64_t next_link_;
  int alive_ = 0;
  bool has_started_ = false;  ///< All guards have joined, and have been asked to start their ranks.
  bool is_closing_ = false;  ///< No rank lives: guards and the command are asked to end.
  Unstarted unstarted_;
  control::Deadline join_by_ = control::Deadline::max();
};

}  // namespace shardproof::launcher

// The ranks of a world that a command of the user starts (`run --launcher 'mpirun -n {ranks}'`). The command starts a
// guard for each rank (guard.hpp). Guards connect to this object, and report the ends of their ranks on the control
// page. A running world (run/world.cpp) owns it.
//
// The command has to start exactly one guard for each rank, in time. Only then the guards start their ranks. Otherwise
// all ranks are unstarted, for a reason that the user can repair.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/control/control_page.hpp"
#include "harness/control/page_watch.hpp"
#include "harness/protocol/run_directory.hpp"
#include "harness/protocol/world_plan.hpp"
#include "launcher/process/poller.hpp"
#include "launcher/process/process.hpp"
#include "launcher/run/guard_link.hpp"
#include "launcher/run/ranks.hpp"
#include "launcher/run/world.hpp"

namespace shardproof::launcher {

/// The word in the command that becomes the number of ranks.
inline constexpr char ranks_word[] = "{ranks}";

/// The command for a world of this size.
std::string launcher_command(std::string command, int world_size);

class ForeignRanks final : public Ranks {
 public:
  /// Borrows all arguments.
  ForeignRanks(const protocol::WorldPlan& plan, const protocol::WorldDirectory& directory, const WorldLaunch& launch,
               control::ControlPage& page, Poller& poller);
  ~ForeignRanks() override;

  std::optional<Failure> start() override;
  bool is_one_process() const override { return false; }
  bool is_alive(int rank) const override { return at(rank).state != State::ended; }
  bool all_have_ended() const override { return alive_ == 0; }
  bool is_over() const override { return alive_ == 0 && !command_ && links_.empty() && unstarted_.ranks.empty(); }
  pid_t pid(int rank) const override;
  control::Deadline deadline() const override;
  bool shows_end(const std::vector<std::uint64_t>& ready) const override;
  std::vector<Ended> collect(const std::vector<std::uint64_t>& ready) override;
  Unstarted take_unstarted() override;
  void signal_all(int number) noexcept override;
  std::vector<Abandoned> abandon() override;

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
  };
  struct Link {
    GuardLink link;
    int rank = -1;  ///< -1: the guard has not named its rank
  };

  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  void accept_guards();
  void read_reports(std::uint64_t key);
  void handle(const GuardReport& report, std::uint64_t key);
  void refuse_second(int rank, std::uint64_t key);
  void start_ranks();
  void take_end_of_command();
  void check_deadlines();
  void close_links();
  void drop(std::uint64_t key);
  void end_rank(int rank);
  bool has_lost_guard(int rank) const { return !links_.contains(at(rank).link); }
  std::string reason_of(const protocol::RankEnd& end) const;
  std::vector<int> awaited() const;
  void give_up(const std::string& why, const std::vector<int>& ranks);
  void end_command_at(control::Deadline at);

  const protocol::WorldPlan& plan_;
  const protocol::WorldDirectory& directory_;
  const WorldLaunch& launch_;
  control::ControlPage& page_;
  Poller& poller_;
  std::string command_line_;
  std::optional<control::PageWatch> watch_;
  std::optional<GuardListener> listener_;
  std::optional<Process> command_;
  std::optional<Exit> command_end_;
  std::vector<Rank> ranks_;
  std::map<std::uint64_t, Link> links_;
  std::uint64_t next_link_;
  int alive_ = 0;
  bool has_started_ = false;  ///< All guards have joined, and have been asked to start their ranks.
  bool is_closing_ = false;  ///< No rank lives: guards and the command are asked to end.
  Unstarted unstarted_;
  control::Deadline join_by_ = control::Deadline::max();
  // The measures against the command and the guards, in this order.
  control::Deadline terminate_at_ = control::Deadline::max(), kill_at_ = control::Deadline::max(),
                    abandon_at_ = control::Deadline::max();
};

}  // namespace shardproof::launcher

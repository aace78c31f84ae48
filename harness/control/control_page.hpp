// ControlPage is the control plane of ranks on one machine: a page of shared memory. The launcher creates it, and the
// ranks map it. Ranks can be processes or threads. The page outlives any of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "harness/control/control_plane.hpp"
#include "harness/protocol/rank_end.hpp"

namespace shardproof::control {

class ControlPage final : public ControlPlane {
 public:
  /// Makes the file. Throws std::system_error, which names the file.
  static ControlPage create(const std::filesystem::path& file, int world_size, std::string_view nonce);
  /// Maps a file that `create` made. Throws std::runtime_error when the file has another world's nonce or another
  /// build's layout.
  static ControlPage open(const std::filesystem::path& file, std::string_view nonce);
  /// For ranks that are threads of this process.
  static ControlPage anonymous(int world_size);

  ControlPage(ControlPage&&) noexcept;
  ControlPage& operator=(ControlPage&&) noexcept;
  ~ControlPage() override;

  int world_size() const override;
  bool raise_abort(std::uint32_t epoch, const Abort& abort) override;
  std::optional<Abort> aborted(std::uint32_t epoch) const override;
  bool doom(const Abort& abort) override;
  std::optional<Abort> doomed() const override;
  void ring(int rank) const override;
  void await(int rank, const std::function<bool()>& ready, std::optional<std::uint32_t> epoch, Deadline deadline,
             const std::function<std::string()>& late) const override;
  void check(std::optional<std::uint32_t> epoch) const override;
  void wait_by(std::shared_ptr<Waiting> waiting) override;
  void pause() const override;
  void give_turn(std::optional<int> rank) override;
  std::optional<int> turn() const override;
  std::vector<Ballot> agree(int rank, const Ballot& mine, Deadline deadline) override;
  void enter_wait(std::uint32_t epoch) override;
  void leave_waits(int ranks) override;
  void enter_message_wait() override;
  void leave_message_wait() override;
  void search_deadlock() override;
  void report(int rank, const Progress& progress) override;
  Progress progress(int rank) const override;
  FlightRing& flight(int rank) const override;
  std::vector<protocol::FlightRecord> flight_records() const override;
  bool is_remote(int rank) const override;
  std::string last_call(int rank) const override;

  /// The end of a rank whose process is not a child of its launcher. Only the rank's guard calls it, once. The last
  /// words are cut to 512 bytes.
  void end_rank(const protocol::RankEnd& end);
  /// Nullopt: the rank's guard has not reported an end.
  std::optional<protocol::RankEnd> rank_end(int rank) const;

  /// Rung after each abort, after the doom, after a rank left in order, and after `end_rank`. Where ranks are on other
  /// hosts, also after the last vote of the ranks of this host. For a PageWatch.
  Doorbell& watcher() const;

  // -- Several hosts --------------------------------------------------------------------------------------------------
  // Where ranks are on other hosts, the page decides nothing by itself: a link (link/page_link.hpp) gives the page what
  // the hub decides. Only the link calls these functions, from one thread.

  /// Names the ranks of this host. All others are remote. Call it before any rank starts.
  void set_local(std::span<const int> ranks);
  /// A hub decides for this page: `set_local` was called.
  bool has_hub() const;

  /// The last decided round of agreement.
  std::uint64_t decided() const;
  /// The ballot of a rank of this host in the round after the last decided one. nullopt: it has not voted.
  std::optional<Ballot> vote(int rank, std::uint64_t round) const;
  /// Ends a round with the ballots of all ranks. All ranks of this host have voted in it.
  void settle_round(std::uint64_t round, std::span<const Ballot> ballots);

  std::optional<std::uint32_t> aborted_epoch() const;
  /// The cause of an abort is the hub's, also where a rank of this host was the first here.
  void impose_abort(std::uint32_t epoch, const Abort& abort);
  /// The argument of the first `doom` on a page with a hub.
  std::optional<Abort> proposed_doom() const;
  void impose_doom(const Abort& abort);
  /// Ranks of this host that wait in a call. A hint: a call that was aborted, or a rank that was killed, may have left
  /// a count.
  std::int64_t waiting_ranks() const;

 private:
  explicit ControlPage(std::unique_ptr<class PageMapping> mapping);
  void find_deadlock();
  /// Ranks that have voted in the round that is not decided, by this number of votes.
  std::int64_t voted(std::uint64_t votes) const;
  Ballot ballot(int rank, std::uint64_t round) const;

  std::unique_ptr<PageMapping> mapping_;
  std::shared_ptr<Waiting> waiting_;
};

}  // namespace shardproof::control

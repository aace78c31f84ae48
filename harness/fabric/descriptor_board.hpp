// DescriptorBoard is the place where the ranks of a group post their requests when the fabric itself does not compare
// them. No rank waits for another one; a rank that looks later finds a mismatch. It is for fabrics that run after the
// host has issued the calls (NCCL). There, ranks with different requests hang or get wrong bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "harness/fabric/group.hpp"
#include "harness/fabric/shm/region.hpp"

namespace shardproof::fabric {

class DescriptorBoard {
 public:
  /// The number of calls by which a rank may be ahead of another and the board can still compare them.
  static constexpr std::uint64_t kept = 1024;

  /// Ranks that share no memory have one copy of the board each. A wire reports to the other ranks what this rank does
  /// on its copy. No function waits.
  class Wire {
   public:
    Wire() = default;
    virtual ~Wire() = default;
    Wire(const Wire&) = delete;
    Wire& operator=(const Wire&) = delete;

    virtual void posted(const Descriptor& asked) = 0;
    /// This rank has compared all calls before this number.
    virtual void compared(std::uint64_t number) = 0;
    virtual void found(std::string_view mismatch) = 0;
    /// Calls `take_…` of the board for each report of another rank that has arrived.
    virtual void receive(DescriptorBoard& board) = 0;
  };

  /// Collective over `group`, whose members share `memory`.
  static std::unique_ptr<DescriptorBoard> make(shm::SharedMemory& memory, Group& group);
  /// This rank's copy of the board of `group`.
  static std::unique_ptr<DescriptorBoard> make_copy(const Group& group, std::unique_ptr<Wire> wire);

  /// True when every rank is known to have compared the call that the next call would replace.
  bool has_room();
  /// Posts this rank's next call; the board must have room. Returns the call's number, from 0, which is the
  /// descriptor's sequence.
  std::uint64_t post(Descriptor asked);
  std::uint64_t posted() const { return posted_; }  ///< calls that this rank has posted
  /// `at_whole_calls` compares the calls that all ranks have posted, and names the first two requests that differ.
  /// `at_everything` compares all posted requests. It is for a rank that has waited long for the others.
  enum class Look : std::uint8_t { at_whole_calls, at_everything };
  /// Throws Mismatch. From then on the text is the same on every rank: the first rank that finds a mismatch writes the
  /// text down. If ranks have copies, two ranks that find mismatches at the same moment may have different texts.
  void check(Look look);
  /// `rank 2 has posted 4 of 5 calls`, for all ranks that have posted fewer calls than this rank. Empty: there is no
  /// such rank.
  std::string missing_calls() const;

  // For a wire: what another rank of the group has done on its copy.

  void take_posted(int rank, const Descriptor& asked);
  void take_compared(int rank, std::uint64_t number);
  void take_mismatch(std::string_view text);

 private:
  struct Layout;
  /// If ranks have copies, a rank reports its comparisons once for so many calls.
  static constexpr std::uint64_t between_reports = kept / 4;

  DescriptorBoard(std::shared_ptr<shm::Region> region, const Group& group, std::unique_ptr<Wire> wire);
  void receive();
  struct Comparison {
    bool is_complete = true;  ///< all ranks have posted this call, so the result is final
    std::string difference;
  };
  Comparison compare(std::uint64_t sequence) const;

  std::shared_ptr<shm::Region> region_;
  std::unique_ptr<Wire> wire_;  ///< nullptr: all ranks share the region
  Layout* layout_;
  std::string name_;
  std::vector<int> members_;
  int rank_;
  std::uint64_t posted_ = 0;  // by this rank
  std::uint64_t compared_ = 0;  // this rank has compared all ranks' calls before this number
};

}  // namespace shardproof::fabric

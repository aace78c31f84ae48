// Where the ranks of a group post what they ask for, when the fabric itself does not compare it: nobody waits for anybody, and whoever looks
// later finds out. For fabrics that run behind the host (NCCL), where ranks that ask for different things hang, or get wrong bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "harness/fabric/group.hpp"
#include "harness/fabric/shm/region.hpp"

namespace shardproof {

class DescriptorBoard {
 public:
  /// Calls by which a rank may be ahead of another: those can still be compared.
  static constexpr std::uint64_t kept = 1024;

  /// Collective over `group`, whose members share `memory`.
  static std::unique_ptr<DescriptorBoard> make(shm::SharedMemory& memory, Group& group);

  /// No rank is so far behind that it has yet to compare what the next call would replace.
  bool has_room() const;
  /// This rank's next call, for which there is room; returns its number, from 0, which is the descriptor's sequence.
  std::uint64_t post(Descriptor asked);
  std::uint64_t posted() const { return posted_; }  ///< by this rank
  /// What is compared: calls that all ranks have posted, of which the first two that differ are named; or all that is there, for whoever has
  /// waited for the others for long.
  enum class Look : std::uint8_t { at_whole_calls, at_everything };
  /// Throws Mismatch, from then on always the same on every rank: whoever finds it first writes it down.
  void check(Look look);
  /// `rank 2 has posted 4 of 5 calls`, for all ranks that have posted fewer than this one; empty: none has.
  std::string behind() const;

 private:
  struct Layout;

  DescriptorBoard(std::shared_ptr<shm::Region> region, const Group& group);
  struct Comparison {
    bool is_complete = true;  ///< nothing more can come of it
    std::string difference;
  };
  Comparison compare(std::uint64_t sequence) const;

  std::shared_ptr<shm::Region> region_;
  Layout* layout_;
  std::string name_;
  std::vector<int> members_;
  int rank_;
  std::uint64_t posted_ = 0;  // by this rank
  std::uint64_t compared_ = 0;  // of all ranks, before this number
};

}  // namespace shardproof

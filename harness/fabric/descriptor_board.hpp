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
  /// Calls of a rank that others can still compare; of a rank that is further ahead the older ones go unchecked.
  static constexpr std::uint64_t kept = 64;

  /// Collective over `group`, whose members share `memory`.
  static std::unique_ptr<DescriptorBoard> make(shm::SharedMemory& memory, Group& group);

  /// This rank's next call; returns its number, from 0, which is the descriptor's sequence.
  std::uint64_t post(Descriptor asked);
  /// Compares what has been posted so far. Throws Mismatch, from then on always the same on every rank: whoever finds it first writes it down.
  void check();
  /// Calls of which some rank's descriptor was gone before this rank compared it.
  std::uint64_t unchecked() const { return unchecked_; }

 private:
  struct Layout;

  DescriptorBoard(std::shared_ptr<shm::Region> region, const Group& group);
  std::string difference_at(std::uint64_t sequence, bool& is_complete);

  std::shared_ptr<shm::Region> region_;
  Layout* layout_;
  std::string name_;
  std::vector<int> members_;
  int rank_;
  std::uint64_t posted_ = 0;  // by this rank
  std::uint64_t compared_ = 0;  // of all ranks, before this number
  std::uint64_t unchecked_ = 0;
};

}  // namespace shardproof

// Boards makes the descriptor boards of a rank's groups (descriptor_board.hpp).
#pragma once

#include <memory>
#include <utility>

#include "harness/fabric/descriptor_board.hpp"
#include "harness/fabric/group.hpp"
#include "harness/fabric/shm/region.hpp"

namespace shardproof::fabric {

class Boards {
 public:
  Boards() = default;
  virtual ~Boards() = default;
  Boards(const Boards&) = delete;
  Boards& operator=(const Boards&) = delete;

  /// Collective over `group`.
  virtual std::unique_ptr<DescriptorBoard> make(Group& group) = 0;
};

/// For ranks that share this memory. messages/message_boards.hpp has boards for ranks on several hosts.
class SharedBoards final : public Boards {
 public:
  explicit SharedBoards(std::shared_ptr<shm::SharedMemory> memory) : memory_(std::move(memory)) {}
  std::unique_ptr<DescriptorBoard> make(Group& group) override { return DescriptorBoard::make(*memory_, group); }

 private:
  std::shared_ptr<shm::SharedMemory> memory_;
};

}  // namespace shardproof::fabric

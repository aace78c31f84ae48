// MessageBoards makes descriptor boards for ranks that share no memory. Each rank has a copy of each board, and sends
// its calls to the other ranks of the group. No rank waits for such a message.
#pragma once

#include <memory>

#include "harness/fabric/boards.hpp"
#include "harness/fabric/messages/transport.hpp"

namespace shardproof::fabric::messages {

class MessageBoards final : public Boards {
 public:
  /// `transport` must carry nothing else.
  explicit MessageBoards(std::unique_ptr<Transport> transport);
  ~MessageBoards() override;

  std::unique_ptr<DescriptorBoard> make(Group& group) override;

 private:
  class Exchange;
  class BoardWire;
  std::shared_ptr<Exchange> exchange_;  ///< Boards share it, and may outlive this object.
};

}  // namespace shardproof::fabric::messages

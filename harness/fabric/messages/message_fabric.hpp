// MessageFabric is a fabric of ranks on one or several hosts that send each other messages. Its transport carries the
// messages.
#pragma once

#include <memory>
#include <string>

#include "harness/fabric/fabric.hpp"
#include "harness/fabric/messages/transport.hpp"

namespace shardproof::fabric {

namespace messages {
struct MessageContext;
}  // namespace messages

class MessageFabric : public Fabric {
 public:
  /// `name`: the fabric's, for texts. The transport has the rank and the size of the world.
  MessageFabric(std::string name, const FabricContext& context, std::unique_ptr<messages::Transport> transport);
  /// Waits for no rank.
  std::shared_ptr<Group> join() override;

 private:
  std::shared_ptr<messages::MessageContext> rank_;
};

}  // namespace shardproof::fabric

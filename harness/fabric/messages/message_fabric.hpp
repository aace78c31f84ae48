// MessageFabric is a fabric for ranks that send each other messages, on one or several hosts. Its transport carries the
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
  /// `name` is the fabric's name in error texts. The transport has the world's size, and the rank's number in it.
  MessageFabric(std::string name, const FabricContext& context, std::unique_ptr<messages::Transport> transport);
  /// Waits for no rank.
  std::shared_ptr<Group> join() override;

 private:
  std::shared_ptr<messages::MessageContext> rank_;
};

}  // namespace shardproof::fabric

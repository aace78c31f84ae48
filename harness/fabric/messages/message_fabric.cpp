#include "harness/fabric/messages/message_fabric.hpp"

#include <utility>

#include "harness/fabric/messages/message_group.hpp"
#include "harness/fabric/messages/messenger.hpp"

namespace shardproof::fabric {

namespace {

constexpr int number_of_world = 1;  // 0 is for farewells

}  // namespace

MessageFabric::MessageFabric(std::string name, const FabricContext& context,
                             std::unique_ptr<messages::Transport> transport)
    : rank_(std::make_shared<messages::MessageContext>()) {
  rank_->control = context.control;
  rank_->epoch = context.epoch;
  rank_->give_up_at =
      context.give_up_at ? context.give_up_at : usual_deadline(context.timeout, context.control->world_size());
  rank_->rank = context.rank;
  rank_->detect_deadlock = context.detect_deadlock;
  rank_->fabric = std::move(name);
  rank_->messenger = std::make_shared<messages::Messenger>(
      std::move(transport), [control = context.control] { return control->doomed().has_value(); });
}

std::shared_ptr<Group> MessageFabric::join() {
  return std::make_shared<messages::MessageGroup>(rank_, "world", world_id, all_ranks(rank_->control->world_size()),
                                                  number_of_world);
}

}  // namespace shardproof::fabric

// The collectives of a play as its engine gets them. They pass every call to the platform's collectives, and remember
// operands and exceptions.
#pragma once

#include <exception>
#include <memory>
#include <span>
#include <string_view>

#include "harness/device/device.hpp"
#include "harness/player/notebook.hpp"

namespace shardproof::player {

/// A subject may turn an exception of the group into an error text. The player needs the exception itself, to
/// distinguish a released wait and a mismatch from the subject's own errors.
class RememberingCommunicator final : public Communicator {
 public:
  /// With `enforces_tags` every collective enforces its tag.
  RememberingCommunicator(Communicator& inner, std::shared_ptr<Notebook> notebook, bool enforces_tags);

  int rank() const override { return inner_->rank(); }
  std::span<const int> members() const override { return inner_->members(); }
  const FabricCapabilities& capabilities() const override { return inner_->capabilities(); }
  void run(Stream stream, const Collective& collective) override;
  void run_coalesced(Stream stream, std::span<const Collective> collectives) override;
  std::unique_ptr<Communicator> split(int color, int key, std::string_view name) override;
  /// The first exception that passed, here or in a split-off group.
  const std::exception_ptr& thrown() const { return *thrown_; }

 private:
  RememberingCommunicator(std::shared_ptr<Communicator> inner, const RememberingCommunicator& whole);

  Collective noted(Stream stream, const Collective& collective);
  template <class Call> void remembering(Call&& call);

  std::shared_ptr<Communicator> inner_;
  std::shared_ptr<Notebook> notebook_;
  bool enforces_tags_;
  std::shared_ptr<std::exception_ptr> thrown_;  // shared by all groups of a play
};

}  // namespace shardproof::player

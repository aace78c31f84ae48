// The gradient hooks that a script can name, as an engine calls them, and the record of each call. A hook with an
// impossible operand fails, and reports the operand.
#pragma once

#include <memory>

#include "harness/player/notebook.hpp"
#include "harness/subject/gradient_hook.hpp"

namespace shardproof::player {

/// The hooks of one play on one rank. An engine may hold a hook longer than the play: a hook whose notebook is closed
/// fails.
class GradientHooks {
 public:
  /// Hooks communicate over `world`, which must outlive the play. `rank` is this rank.
  GradientHooks(Communicator& world, int rank, std::shared_ptr<Notebook> notebook);

  /// Makes an empty hook for a hook that the script declares not callable.
  GradientHook make(const Hook& hook) const;

 private:
  Communicator& world_;
  int rank_;
  std::shared_ptr<Notebook> notebook_;
};

}  // namespace shardproof::player

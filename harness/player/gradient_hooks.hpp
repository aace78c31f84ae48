// The gradient hooks that a script can name, as an engine calls them, and the record of each call. A hook that gets operands that cannot be
// fails, and says what it got.
#pragma once

#include <memory>

#include "harness/player/notebook.hpp"
#include "harness/subject/gradient_hook.hpp"

namespace shardproof::scenario {

/// The hooks of one play on one rank. An engine may hold a hook longer than the play: a hook whose notebook is closed fails.
class GradientHooks {
 public:
  /// Hooks that communicate do so over `world`, which must outlive the play. `rank` is this rank.
  GradientHooks(Communicator& world, int rank, std::shared_ptr<Notebook> notebook);

  /// A hook that cannot be called is empty.
  GradientHook make(const Hook& hook) const;

 private:
  Communicator& world_;
  int rank_;
  std::shared_ptr<Notebook> notebook_;
};

}  // namespace shardproof::scenario

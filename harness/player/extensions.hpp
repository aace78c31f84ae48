// The all-gather extensions that a script can name: their hooks, as an engine calls them, and the record of each call.
// For an impossible operand, the hook's reply is an error. It names the parameter and the operand that was found.
#pragma once

#include <memory>

#include "harness/player/notebook.hpp"
#include "harness/subject/extension.hpp"

namespace shardproof::player {

/// The extensions of one play on one rank. An engine may hold and call a hook longer than the play: a hook whose
/// notebook is closed fails.
class Extensions {
 public:
  /// `model` must outlive this object, but not the hooks.
  Extensions(const Model& model, std::shared_ptr<Notebook> notebook);

  /// A hook is empty if the script says that the extension lacks it.
  AllGatherExtension make(const Extension& extension) const;

 private:
  class Tickets;
  class Named;

  const Model& model_;
  std::shared_ptr<Notebook> notebook_;
  std::shared_ptr<Tickets> tickets_;
};

}  // namespace shardproof::player

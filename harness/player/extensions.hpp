// The all-gather extensions that a script can name: their hooks, as an engine calls them, and the record of each call. What a hook is given
// that cannot be is an error of its reply, which names the parameter and what was found.
#pragma once

#include <memory>

#include "harness/player/notebook.hpp"
#include "harness/subject/extension.hpp"

namespace shardproof::scenario {

/// Those of one play on one rank. Hooks may be called as long as anybody holds them; once the notebook is closed they are refused.
class Extensions {
 public:
  /// `model` must outlive it, not the hooks.
  Extensions(const Model& model, std::shared_ptr<Notebook> notebook);

  /// A hook that the extension is to lack is empty.
  AllGatherExtension make(const Extension& extension) const;

 private:
  class Tickets;
  class Named;

  const Model& model_;
  std::shared_ptr<Notebook> notebook_;
  std::shared_ptr<Tickets> tickets_;
};

}  // namespace shardproof::scenario

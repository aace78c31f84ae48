// The claims of a subject: the kinds of engines that it plays, and the features that it has as each kind. A case is for
// one kind. A feature that an engine claims for one kind says nothing of its other kinds.
#pragma once

#include <initializer_list>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/protocol/feature.hpp"

namespace shardproof {

class Claims {
 public:
  using Features = std::set<Feature>;

  struct Kind {
    std::string name;  ///< the name of the engine section in plans
    Features features;
    friend bool operator==(const Kind&, const Kind&) = default;
  };

  Claims() = default;
  Claims(std::initializer_list<Kind> kinds);

  /// Throws std::invalid_argument for a kind without a name, and for a kind that is claimed already.
  void add(Kind kind);

  const std::vector<Kind>& kinds() const { return kinds_; }  ///< in the order in which they were added
  bool plays(std::string_view kind) const { return find(kind) != nullptr; }
  bool has(std::string_view kind, Feature feature) const;

  /// Names everything that a case lacks which plays on this kind and needs these features: `the engine kind
  /// flat_shard`, or names of features. A case without a kind (empty) needs one kind with all features. Empty: the
  /// claims are enough.
  std::string lacking(std::string_view kind, std::span<const std::string> needs) const;

  friend bool operator==(const Claims&, const Claims&) = default;

 private:
  const Kind* find(std::string_view kind) const;

  std::vector<Kind> kinds_;
};

}  // namespace shardproof

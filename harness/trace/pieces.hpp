// The pieces of a trace, named by their purpose, so that pieces of two traces can be compared. The functions say which
// piece may pass which, how long each takes at its shortest, and how long all take together at these durations. Pure.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/protocol/trace.hpp"

namespace shardproof::trace {

/// The n-th piece of work of a kind with a label, or the n-th collective of a kind with a tag.
struct Piece {
  std::variant<WorkKind, CollectiveKind> kind;
  std::string label;
  int occurrence = 1;
  friend auto operator<=>(const Piece&, const Piece&) = default;
};

/// `forward "layers.1"`, `all_gather "layers.1" (2)`.
std::string to_string(const Piece& piece);

/// Counts pieces as they come: gives each its occurrence.
class PieceCounter {
 public:
  Piece next(std::variant<WorkKind, CollectiveKind> kind, std::string_view label);

 private:
  std::map<std::pair<std::variant<WorkKind, CollectiveKind>, std::string>, int> seen_;
};

/// The piece of each fact; empty for a fact that is neither work nor a collective.
std::vector<std::optional<Piece>> pieces(const Trace& trace);

/// Which collectives run one at a time, in the order of their issue, although they are on different streams.
enum class Resource { of_group, of_group_and_kind };

/// The pieces in the order of their issue, as `to_string` names them.
std::vector<std::string> issued(const Trace& trace);

/// True if nothing makes `passes` wait for `held`: no stream, event or host wait, and no resource that collectives
/// share. Then `passes` can run to its end while `held` is held back, if other ranks do the same. Throws
/// std::out_of_range naming a piece that the trace does not have.
bool can_pass(const Trace& trace, const Piece& held, const Piece& passes, Resource resource);

using Durations = std::map<Piece, Nanoseconds>;

/// The shortest duration of each piece in any of these traces. A collective's shortest duration has the least time
/// spent on waiting for others.
Durations shortest(std::span<const Trace> traces);

/// The trace at these durations: what its order permits at best (`retimed`), as if every other rank were as far as this
/// rank. Throws std::out_of_range naming a piece that has no duration.
Trace expected(const Trace& trace, const Durations& durations, Resource resource);

}  // namespace shardproof::trace

// The pieces of a trace by what they are for, so that those of two traces can be told to be the same: which may pass which, how long each
// takes at its shortest, and how long all would take together if each took just that. Pure.
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

/// What each fact is; nothing for one that is neither work nor a collective.
std::vector<std::optional<Piece>> pieces(const Trace& trace);

/// Which collectives run one at a time, in the order in which they were issued, though on streams of their own.
enum class Resource { of_group, of_group_and_kind };

/// What was issued, in its order, in the words of `to_string`.
std::vector<std::string> issued(const Trace& trace);

/// True when nothing makes `passes` wait for `held`, neither streams, events and host nor the resource that collectives share: it can run to its
/// end while the other is held back, if other ranks do the same. Throws std::out_of_range naming one that the trace does not have.
bool can_pass(const Trace& trace, const Piece& held, const Piece& passes, Resource resource);

using Durations = std::map<Piece, Nanoseconds>;

/// Of each piece of these traces the shortest duration that it has in any. Of a collective that is the one least spent on waiting for others.
Durations shortest(std::span<const Trace> traces);

/// The trace at these durations: what its order permits at best (`retimed`), as if every other rank were as far as this one. Throws
/// std::out_of_range naming a piece that has no duration.
Trace expected(const Trace& trace, const Durations& durations, Resource resource);

}  // namespace shardproof::trace

// The marks that a player sets in a trace around each call of a script, as text: `iter 0 forward`,
// `iter 0 forward end`. The player writes them, and readers of traces find calls by them. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardproof::protocol {

struct CallMark {
  int iteration = 0;
  std::string call;  ///< `forward`, `failing forward`, …; never ends in ` end` or in a number in parentheses
  int occurrence = 1;  ///< of this call in the iteration; the second has ` (2)` after the call
  bool is_end = false;
  friend bool operator==(const CallMark&, const CallMark&) = default;
};

std::string to_text(const CallMark& mark);
/// The inverse of `to_text`. Nullopt: the text is a mark of another writer.
std::optional<CallMark> read_call_mark(std::string_view text);

}  // namespace shardproof::protocol

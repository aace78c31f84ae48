// The texts that a failure shares with the reasons of the ranks that it ended. Reports compare them, so that they show
// each text once.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardproof::protocol {

/// A rank that aborts the others gives them its reason. They receive at most this many bytes of it.
inline constexpr std::size_t abort_text_limit = 512;

/// The expansion of a failure that an exception made. The exception's text is also the reason of the rank's error.
inline std::string unexpected_exception(std::string_view text) {
  return std::string("unexpected exception: ").append(text);
}

/// How the line of a race begins that says which wait is missing. Races that lack the same wait have one cause.
inline constexpr std::string_view missing_wait = "missing: ";

/// The harness checks these in each case. A failure has their names in the place of a macro.
inline constexpr std::string_view equal_collectives_check = "equal collectives", freed_memory_check = "freed memory",
                                  unchanged_process_check = "unchanged process";

}  // namespace shardproof::protocol

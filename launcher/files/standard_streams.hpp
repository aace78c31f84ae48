// Output of a command on its standard streams. It reports lost text: a list that a full disk cut short must not look
// complete.
#pragma once

#include <cstdio>
#include <string_view>
#include <system_error>

namespace shardproof::launcher {

/// Writes as much of `text` as `out` takes without blocking, and leaves the rest in `text`. A reader that has left (`|
/// head -1`) is not an error. Never throws.
std::error_code write_ready(std::FILE* out, std::string_view& text);
/// Writes all of `text`, and waits for the reader as long as necessary. A signal that ends processes ends a process
/// that waits here, even if the signal is blocked.
std::error_code write_through(std::FILE* out, std::string_view text);

/// Writes to standard output. Throws CommandError (usage) if it cannot: the output is unusable.
void print_output(std::string_view text);
/// Throws the same error if `error` is set. A writer to standard output returned `error`.
void require_printed(const std::error_code& error);

/// Writes `shardproof: TEXT` as a line to standard error. Removes control codes, which a program's own words in TEXT
/// may contain. Ignores a failure to write: no channel is left to report it.
void print_error(std::string_view text);

}  // namespace shardproof::launcher

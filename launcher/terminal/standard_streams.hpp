// What a command says on its standard streams. Text that is lost is noticed: a list that a full disk cut short must not look complete.
#pragma once

#include <cstdio>
#include <string_view>
#include <system_error>

namespace shardproof::launcher {

/// What `out` takes of `text` without waiting; leaves in `text` what it does not. A reader that has left (`| head -1`) is no error. Never
/// throws.
std::error_code write_ready(std::FILE* out, std::string_view& text);
/// All of it, waiting for a reader as long as that takes; a signal that ends processes ends this one meanwhile, also where it is blocked.
std::error_code write_through(std::FILE* out, std::string_view text);

/// To standard output. Throws CommandError (usage) when it cannot be written: the output is unusable.
void say(std::string_view text);
/// Throws the same for an `error` that a writer to standard output kept.
void require_said(const std::error_code& error);

/// `shardproof: TEXT` as a line on standard error, without the control codes that a program's own words in it may have. When even that is
/// lost, nobody can be told.
void complain(std::string_view text);

}  // namespace shardproof::launcher

// Words of commands that programs print for users to copy.
#pragma once

#include <string>
#include <string_view>

namespace shardproof::base {

/// The text as a word that a shell reads as this text: in quotes, if it needs them. A text with a character that is not
/// visible, such as an end of a line, becomes `$'one\ntwo'`, for shells such as bash and zsh.
std::string shell_word(std::string_view text);

}  // namespace shardproof::base

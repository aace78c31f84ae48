// Makes text of ranks, subjects and tests harmless in files that other programs show. Nothing in such a text may be
// invisible, turn the text around, or end the element that contains it. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardproof::reports {

/// The text as visible UTF-8, in which newlines and tabs stay:
///   - a control character becomes `\x1b`, as on a terminal,
///   - a character that is not visible or changes the writing direction becomes `\u{202e}`,
///   - a byte that is not UTF-8 becomes `\xff`.
///
/// All characters of the result are valid in XML 1.0.
std::string visible_text(std::string_view text);

/// Escapes visible text for XML and HTML, for elements and for attributes in double quotes.
std::string escaped_markup(std::string_view text);

/// The visible text in one line. A line of more than `most` bytes is cut, which `…` marks.
std::string one_line(std::string_view text, std::size_t most = std::string_view::npos);

}  // namespace shardproof::reports

// Fits text for people into the columns of a terminal. Text in a file has the same lines. Formats for programs have
// whole lines and whole ids, and do not use this. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace shardproof::reports {

/// The width of lines for people.
inline constexpr std::size_t text_columns = 120;

/// The number of columns of a line. A character takes one, and a colour code none.
std::size_t columns_of(std::string_view line);

/// The text, or its beginning and its end with `…` between them. It has at most `columns`. Ids are shortened in the
/// middle: the suite and the parameters distinguish them. `text` has no colour.
std::string shortened(std::string_view text, std::size_t columns);

/// Wraps each line of more than `columns` at blanks. The other lines of it have two more blanks at their beginning. A
/// word that does not fit into a line is shortened. A line with a command to copy stays whole.
std::string fitted(std::string_view text, std::size_t columns = text_columns);

}  // namespace shardproof::reports

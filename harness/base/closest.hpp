// Suggests a name that exists for a name that does not. Pure.
#pragma once

#include <set>
#include <span>
#include <string>
#include <string_view>

namespace shardproof::base {

/// The candidate that differs least from `asked`; a difference in case alone is the least. Empty if every candidate
/// differs in more than half of `asked`.
std::string closest(const std::set<std::string>& candidates, std::string_view asked);

/// A part of an error message between two others: `closest is 'layer'; `. Empty if no candidate is close. `quote` is
/// the quotation mark of the message.
std::string closest_hint(const std::set<std::string>& candidates, std::string_view asked, char quote = '\'');

/// The error message about a name of the command line: `unknown profile 'wild'; closest is 'wide'; known: wide, alone`.
/// `what` is the kind of the name. `known` has at least one name, and the message keeps the order.
std::string unknown_name(std::string_view what, std::string_view asked, std::span<const std::string> known);

/// The end of an error message: `closest is "layer"`, or else the first few existing names:
/// `there are "head", "layer"`. Without any candidate: `there is none`.
std::string closest_or_all(const std::set<std::string>& candidates, std::string_view asked);

}  // namespace shardproof::base

// The last lines that a rank printed, for a text about its failure. Pure.
#pragma once

#include <string>
#include <string_view>

namespace shardproof::reports {

/// `rank 1 printed last (LOG):`, then at most 8 of the last lines of `text`, indented. Characters that are not visible
/// are escaped. Empty `log`: the log is not kept.
std::string printed_text(int rank, std::string_view text, std::string_view log);

}  // namespace shardproof::reports

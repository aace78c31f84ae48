// The text of clauses.md, which the build embeds into the suite: the table of clauses that cases and faults cite.
#pragma once

#include <string_view>

namespace shardproof::overlap {

std::string_view clause_table();

}  // namespace shardproof::overlap

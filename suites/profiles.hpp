// The text of profiles.json, which the build embeds into the worker. A profile lists the cases that an engine claims to
// pass.
#pragma once

#include <string_view>

namespace shardproof::suites {

std::string_view profiles();

}  // namespace shardproof::suites

// The text of profiles.json, as the build put it into the worker: which cases of the suites somebody claims to pass.
#pragma once

#include <string_view>

namespace shardproof::suites {

std::string_view profiles();

}  // namespace shardproof::suites

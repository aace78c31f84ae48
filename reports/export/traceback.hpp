// What Python says of an exception is mostly of the way to the place where it was raised, and that of the harness's own package is the same
// each time. Here stands what is left of it for people; programs and files have all of it. Pure.
#pragma once

#include <string>
#include <string_view>

namespace shardproof::reports {

/// Of every traceback in a text the last lines, which say what was raised and where, without the frames of the package that plays engines
/// in Python. Everything else stands as it was.
std::string shortened_tracebacks(std::string_view text);

}  // namespace shardproof::reports

// Shortens Python tracebacks for people. Most frames of a traceback are the path to the error, and the frames of the
// harness's own package are always the same. Programs and files get the whole traceback. Pure.
#pragma once

#include <string>
#include <string_view>

namespace shardproof::reports {

/// Keeps the last lines of each traceback in a text, which say what was raised and where. Removes the frames of the
/// package that plays engines in Python. Keeps all other text.
std::string shortened_tracebacks(std::string_view text);

}  // namespace shardproof::reports

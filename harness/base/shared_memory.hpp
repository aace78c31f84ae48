// Allocates and maps memory that several processes share.
#pragma once

#include <cstddef>
#include <string_view>

namespace shardproof::base {

/// Gives an empty file its size and allocates its memory now. So a full memory file system is an error here, and not a
/// SIGBUS at a rank's first access. Returns an error number, 0 for success.
int take_room(int descriptor, std::size_t bytes);

/// Maps memory for reads and writes. A negative descriptor maps memory without a file. Throws std::system_error, whose
/// text begins with `name`.
std::byte* map_shared(int descriptor, std::size_t bytes, std::string_view name);

}  // namespace shardproof::base

// Taking and mapping memory that several processes share.
#pragma once

#include <cstddef>
#include <string_view>

namespace shardproof {

/// Gives an empty file its size and takes the memory for it now: a full memory file system is an error here, and would be a SIGBUS at some
/// rank's first touch. Returns an error number, 0 for success.
int take_room(int descriptor, std::size_t bytes);

/// Readable and writable; a negative descriptor maps memory of no file. Throws std::system_error that begins with `name`.
std::byte* map_shared(int descriptor, std::size_t bytes, std::string_view name);

}  // namespace shardproof

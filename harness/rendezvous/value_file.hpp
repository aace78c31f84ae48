// How one value lies in its file: who wrote it, for which world, how long it is, and a checksum over all of that. A torn, foreign or stale
// file is told from a value by its content alone.
#pragma once

#include <string>
#include <string_view>

namespace shardproof::rendezvous {

struct Value {
  int writer = -1;  ///< rank
  std::string bytes;
};

std::string encode(const Value& value, std::string_view nonce);
/// Throws std::runtime_error saying what is wrong with the content, without naming the file.
Value decode(std::string_view content, std::string_view nonce);

/// A key as a file name: letters, digits, `-`, `_` and `.` as they are, anything else as %XX.
std::string percent_encode(std::string_view key);

}  // namespace shardproof::rendezvous

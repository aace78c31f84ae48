// The format of a value's file: its writer, its world, its length, and a checksum of all of that. The content alone
// distinguishes a value from a torn, foreign or stale file.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace shardproof::rendezvous {

struct Value {
  int writer = -1;  ///< rank
  std::string bytes;
};

/// A file whose content is not, or not yet, a whole value: torn or corrupt.
class TornValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string encode(const Value& value, std::string_view nonce);
/// Throws TornValue, or std::runtime_error for a value of another world. They say what is wrong with the content, and
/// do not name the file.
Value decode(std::string_view content, std::string_view nonce);

/// Encodes a key as a file name. Letters, digits, `-`, `_` and `.` stay; any other byte becomes %XX.
std::string percent_encode(std::string_view key);

}  // namespace shardproof::rendezvous

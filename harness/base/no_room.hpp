// NoRoom is the error of a file system without room for a file that ranks share. The launcher tries such a world again
// on another file system, so this error has its own type.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace shardproof::base {

/// True for errors of a file system that is full, or in which the user has used up a quota.
inline bool means_no_room(const std::error_code& error) {
  return error.category() == std::generic_category() && (error.value() == ENOSPC || error.value() == EDQUOT);
}

class NoRoom : public std::system_error {
 public:
  using std::system_error::system_error;
};

/// Throws NoRoom for an error number that means no room, and std::system_error for any other.
[[noreturn]] inline void fail_with(int error, const std::string& what) {
  const std::error_code code(error, std::generic_category());
  if (means_no_room(code)) throw NoRoom(code, what);
  throw std::system_error(code, what);
}

}  // namespace shardproof::base

// The limit of open files of this process.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <optional>

namespace shardproof::base {

/// Raises the limit to `needed` where it is lower, as far as the hard limit allows. Returns the hard limit if it is too
/// low.
inline std::optional<rlim_t> raise_open_files(rlim_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return std::nullopt;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  const bool is_enough = ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= needed;
  return is_enough ? std::nullopt : std::optional(limit.rlim_max);
}

}  // namespace shardproof::base

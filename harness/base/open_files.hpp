// The limit of open files of this process.
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <optional>

namespace shardproof::base {

/// Raises the soft limit to `needed` if it is lower, but not above the hard limit. Returns the hard limit if that is
/// too low, or else nullopt.
inline std::optional<rlim_t> raise_open_files(rlim_t needed) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed) return std::nullopt;
  limit.rlim_cur = std::min(needed, limit.rlim_max);
  const bool is_enough = ::setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= needed;
  return is_enough ? std::nullopt : std::optional(limit.rlim_max);
}

}  // namespace shardproof::base

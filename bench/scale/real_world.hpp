// Runs one world of real processes, and counts what it uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/scale/calls.hpp"
#include "launcher/worker_client/worker.hpp"

namespace shardproof::bench {

struct RealWorld {
  FileCalls store, run;  ///< of the ranks
  std::uint64_t agreements = 0;
  std::uint64_t page_bytes = 0;    ///< of the control page
  std::uint64_t region_bytes = 0;  ///< shared memory that the ranks have reserved
  std::uint64_t stream_lines = 0, stream_bytes = 0;  ///< of all ranks together
  std::uint64_t files = 0;                           ///< in the directory of the world
  std::size_t descriptors = 0;                       ///< of the launcher, for this world
  double ms = 0;
};

/// `counter`: the library count_calls. `directory` is new. Throws std::runtime_error if a rank did not leave in order.
RealWorld run_real_world(const launcher::Worker& worker, const std::filesystem::path& counter, int ranks,
                         const std::vector<std::string>& cases, const std::filesystem::path& directory);

}  // namespace shardproof::bench

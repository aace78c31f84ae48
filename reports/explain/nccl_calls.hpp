// What ranks asked of NCCL last, and where they differ first, from the records of the tap that they ran under (docs/nccl-tap.md). Pure:
// `run` and `merge` say it of worlds in which something went wrong, `explain` of all that were kept.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/protocol/nccl_record.hpp"

namespace shardproof::reports {

/// A sentence for each record, one for ranks of which it is the same, one for ranks that have none, and the first difference between
/// records:
///
///   rank 0 called NCCL 14 times, last: reduce_scatter #3 of 552 f32 (avg) on comm 0, stream 1; all_gather #17 …
///   rank 1 called NCCL 13 times, last: reduce_scatter #3 of 552 f32 (avg) on comm 0, stream 1, had not returned
///   rank 2 has no record of a call of NCCL
///   rank 1 has not come to collective 20 on comm 0 of 2 ranks: rank 0 made all_gather #17 …, and of rank 1 its last one there is …
///
/// The last three calls, and of earlier ones those that had not returned. `world_size`: of the ranks that could have made records.
/// `damaged`: ranks whose records cannot be read; nothing is said of what they lack.
std::vector<std::string> nccl_sentences(std::span<const nccl_tap::TapRecord> records, int world_size, std::span<const int> damaged = {});

}  // namespace shardproof::reports

// Describes the last NCCL calls of ranks and the first difference between ranks, from the records of the NCCL tap
// (docs/nccl-tap.md). `run` and `merge` use it for worlds in which a case went wrong, and `explain` for all worlds with
// records. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "harness/protocol/nccl_record.hpp"

namespace shardproof::reports {

/// Returns:
///   - a sentence for each record, shared by ranks with equal records,
///   - a sentence for ranks without a record,
///   - a sentence for the first difference between records.
///
///   rank 0 called NCCL 14 times, last: reduce_scatter #3 of 552 f32 (avg) on comm 0, stream 1; all_gather #17 …
///
///   rank 1 called NCCL 13 times, last: reduce_scatter #3 of 552 f32 (avg) on comm 0, stream 1, had not returned
///
///   rank 2 has no record of a call of NCCL
///
///   rank 1 has not reached collective 20 on comm 0 of 2 ranks: rank 0 made all_gather #17 …, and of rank 1 its last
///   one there is …
///
/// A sentence shows the last three calls, and earlier calls that had not returned. `world_size`: the number of ranks
/// that could have made records. `damaged`: ranks with unreadable records. The text does not say what these records
/// lack.
std::vector<std::string> nccl_sentences(std::span<const protocol::TapRecord> records, int world_size,
                                        std::span<const int> damaged = {});

}  // namespace shardproof::reports

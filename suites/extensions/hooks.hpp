// Checks of the arguments and results of all-gather extensions' hooks, on all ranks. They hold for every run that
// gathers by hooks. Each check has its own clause.
#pragma once

#include <string>
#include <vector>

#include "harness/player/run.hpp"
#include "harness/shardproof.hpp"

namespace shardproof::extensions {

/// Parameters whose pre hook ran, in order of their names. The harness refuses a post hook without one.
std::vector<std::string> hooked_parameters(const Run& run);

/// The all-gathers of parameters, in order. Excludes the gathers by which ranks agree on sizes.
std::vector<fact::Collective> parameter_gathers(const Run& run);

/// The global ranks over which this rank's parameters are sharded.
std::vector<int> shard_members(Rank& rank, const Run& run);

/// EXT-1: post hooks got the contributions of all ranks' pre hooks, byte for byte.
void check_contributions(Rank& rank, const Run& run);

/// EXT-2: every gather has a pre hook, and every unpacked gather has a post hook, with the metadata of its own gather.
void check_paired(const Rank& rank, const Run& run);

/// EXT-3: the first post hook of a parameter makes it. All later post hooks get its result.
void check_out(const Rank& rank, const Run& run);

/// EXT-10: the padding rows of a rank's shards are zero when hooks get them. Checks contributions that have the shard's
/// rows.
void check_padding(Rank& rank, const Run& run);

/// EXT-11: a hook of the full form got the right context of its parameter, and a hook of the minimal form got none.
void check_context(Rank& rank, const Run& run);

/// Runs all of these checks.
void check_hooks(Rank& rank, const Run& run);

}  // namespace shardproof::extensions

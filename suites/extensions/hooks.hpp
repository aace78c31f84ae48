// Checks of what hooks of all-gather extensions were given and gave, on all ranks. They hold for every run that gathers by hooks. Each check
// is judged by its own clause.
#pragma once

#include <string>
#include <vector>

#include "harness/shardproof.hpp"

namespace shardproof::extensions {

/// Parameters whose pre hook ran, in order of their names. The harness refuses a post hook without one.
std::vector<std::string> hooked_parameters(const scenario::Run& run);

/// The all-gathers of parameters, in order: all but those by which ranks agree on sizes.
std::vector<fact::Collective> parameter_gathers(const scenario::Run& run);

/// Global ranks that this rank's parameters are dealt to.
std::vector<int> shard_members(Rank& rank, const scenario::Run& run);

/// EXT-1: post hooks were given, byte for byte, what the pre hooks of all ranks contributed.
void check_contributions(Rank& rank, const scenario::Run& run);

/// EXT-2: a pre hook for every gather, and a post hook for every one that was unpacked, each with the metadata of its own gather.
void check_paired(const Rank& rank, const scenario::Run& run);

/// EXT-3: the first post hook of a parameter makes it, all later ones are given what that made.
void check_out(const Rank& rank, const scenario::Run& run);

/// EXT-10: the rows of a rank's shards that are padding are zero when hooks are given them. Of contributions that have the shard's rows.
void check_padding(Rank& rank, const scenario::Run& run);

/// EXT-11: what a hook of the full form was told of its parameter, and that one of the minimal form was told nothing.
void check_context(Rank& rank, const scenario::Run& run);

/// All of these.
void check_hooks(Rank& rank, const scenario::Run& run);

}  // namespace shardproof::extensions

// Finds options of a run's command line, for commands that repeat a part of it. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::reports {

/// After this word of a command line, no word is an option.
inline constexpr std::string_view end_of_options = "--";

/// The options for GPUs and the source of their times. `share_gpus_flag` belongs to them, and has no value.
inline constexpr std::string_view gpu_options[] = {"--backend", "--gpus", "--times"};
inline constexpr std::string_view share_gpus_flag = "--share-gpus";

/// The given options (`--name value`, `--name=value`) and flags in `argv`, word by word as the user wrote them.
std::vector<std::string> words_given(std::span<const std::string> argv, std::span<const std::string_view> options,
                                     std::span<const std::string_view> flags);

}  // namespace shardproof::reports

// Which options a run was given, for commands that repeat a part of it. Pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::reports {

/// After this word of a command line, no word is an option.
inline constexpr std::string_view end_of_options = "--";

/// What a world of GPUs is made of, and where its times come from: options, and the flag beside them.
inline constexpr std::string_view gpu_options[] = {"--backend", "--gpus", "--times"};
inline constexpr std::string_view share_gpus_flag = "--share-gpus";

/// Of these options (`--name value`, `--name=value`) and flags those that were given, word by word as they were given.
std::vector<std::string> words_given(std::span<const std::string> argv, std::span<const std::string_view> options,
                                     std::span<const std::string_view> flags);

}  // namespace shardproof::reports

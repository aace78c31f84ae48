// What came of one scenario on two subjects, as a person or a program reads it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "launcher/commands/options.hpp"
#include "launcher/explore/contenders.hpp"
#include "reports/play/play_difference.hpp"

namespace shardproof::launcher {

/// One document on both.
struct SideBySide {
  std::array<DocumentPlay, 2> plays;
  reports::PlayComparison comparison;
};

/// Prepares those that want to be (warm_process.hpp), once for all that they are to play; what they print then goes beside their runs.
void prepare(std::array<Contender, 2>& contenders, const std::filesystem::path& place, SignalWatch& signals);

/// Plays them all on the one and then on the other, each in a directory of its own below `place`; `ulps` as `reports::compare` takes it.
/// Throws CommandError as `play_documents`.
std::vector<SideBySide> play_side_by_side(const std::array<Contender, 2>& contenders, std::span<const Document> documents,
                                          std::uint64_t ulps, const std::filesystem::path& place, const std::vector<std::string>& argv,
                                          SignalWatch& signals);

/// Below `place`, where the runs of the first or the second are: `1-fully_shard+late_gather`.
std::filesystem::path place_of(const std::array<Contender, 2>& contenders, std::size_t which, const std::filesystem::path& place);

/// `reference (1) beside ./libmy_engine.so (my_engine 2)`
std::string names_text(const std::array<Contender, 2>& contenders);

/// What differs; warnings, which are shown and not compared; and why both refused, where they did.
std::string to_text(const SideBySide& both);
/// `{alike, …, played: [{subject, version, fault, verdict, why, result}]}`: the comparison, and what `play --json` says of each.
nlohmann::ordered_json to_json(const SideBySide& both, const std::array<Contender, 2>& contenders);

/// `shardproof play SCENARIO --subject A,B`.
int play_on_two(const PlayOptions& options, const std::vector<std::string>& argv);

}  // namespace shardproof::launcher

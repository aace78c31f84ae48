// The results of one scenario on two subjects, as text and as JSON. `play` and `explore` use it.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "launcher/explore/contenders.hpp"
#include "reports/play/play_difference.hpp"

namespace shardproof::launcher {

/// The results of one document on both subjects.
struct SideBySide {
  std::array<DocumentPlay, 2> plays;
  reports::PlayComparison comparison;
};

/// Prepares the contenders that need it (warm_process.hpp), once for all their plays. Their output while they prepare
/// goes into `place`, next to their runs.
void prepare(std::array<Contender, 2>& contenders, const std::filesystem::path& place, SignalWatch& signals);

/// Plays all documents on the first contender and then on the second. Each contender has its own directory in `place`.
/// `ulps` as in `reports::compare`. Throws CommandError like `play_documents`.
std::vector<SideBySide> play_side_by_side(const std::array<Contender, 2>& contenders,
                                          std::span<const Document> documents, std::uint64_t ulps,
                                          const std::filesystem::path& place, const std::vector<std::string>& argv,
                                          SignalWatch& signals);

/// The folder in `place` for the runs of contender `which`: `1-fully_shard+late_gather`.
std::filesystem::path folder_of(const std::array<Contender, 2>& contenders, std::size_t which,
                                const std::filesystem::path& place);

/// `reference (1) beside ./libmy_engine.so (my_engine 2)`
std::string names_text(const std::array<Contender, 2>& contenders);

/// The differences, the warnings, and why both refused, if they did. Warnings are not compared.
std::string to_text(const SideBySide& both);
/// `{alike, …, played: [{subject, version, fault, verdict, why, result}]}`: the comparison, and the output of `play
/// --json` for each contender.
nlohmann::ordered_json to_json(const SideBySide& both, const std::array<Contender, 2>& contenders);

}  // namespace shardproof::launcher

// The options of `play`, what it shares with its part that compares two subjects, and that part.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/explore/contenders.hpp"
#include "launcher/files/claimed_directory.hpp"
#include "launcher/run/plan.hpp"
#include "launcher/terminal/terminal.hpp"

namespace shardproof::launcher {

struct PlayOptions {
  std::vector<std::filesystem::path> scenarios;  ///< at least one
  PlanOptions plan;
  std::optional<int> ranks;  ///< Empty: each document says it, or the worker has a default.
  std::filesystem::path worker;
  OutputOptions out;  ///< Empty: the command keeps no output.
  std::filesystem::path trace;  ///< A file for Perfetto, or `-` for standard output. Empty: no trace.
  bool show_plan = false;  ///< Print the compiled steps.
  std::filesystem::path plan_dot;  ///< A file for Graphviz with the compiled steps. Empty: no file.
  std::uint64_t ulps = 0;  ///< With two subjects: values may differ by so many units in the last place.
  bool json = false;
  TerminalOptions terminal;
};

/// A document of the command line, before and after it was played.
struct CheckedDocument {
  Document document;
  std::string refusal;  ///< Why it cannot be played. Empty: it can, or it was played.
};

/// Checks each document on all contenders, so that a bad document does not keep the others from being played. Throws
/// CommandError for every other reason than a bad document.
std::vector<CheckedDocument> check_documents(const PlayOptions& options, std::span<const Contender> contenders,
                                             SignalWatch& signals);
/// The documents without a refusal.
std::vector<Document> playable(std::span<const CheckedDocument> checked);

/// `shardproof play SCENARIO… --subject A,B`: plays each scenario on both subjects, and shows the differences. Returns
/// the exit code, or throws CommandError.
int play_on_two(const PlayOptions& options, const std::vector<std::string>& argv);

}  // namespace shardproof::launcher

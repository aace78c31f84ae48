#include "launcher/demands.hpp"

#include <fmt/format.h>

#include <set>
#include <stdexcept>
#include <string>

#include "harness/protocol/closest.hpp"
#include "harness/protocol/input_file.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {
namespace {

/// Described in a table, or only cited: a program of plain multi-rank tests need not have a table.
std::set<std::string> clauses_of(const Listing& listing) {
  std::set<std::string> ids;
  for (const ClauseInfo& clause : listing.clauses) ids.insert(clause.id);
  for (const CaseInfo& info : listing.cases) ids.insert(info.clauses.begin(), info.clauses.end());
  return ids;
}

void require_known(const std::vector<std::string>& clauses, const Listing& listing) {
  const std::set<std::string> known = clauses_of(listing);
  for (const std::string& clause : clauses) {
    if (known.contains(clause)) continue;
    const std::string near = closest(known, clause);
    throw CommandError(usage, fmt::format("--require {}: the worker has no such clause{} (`shardproof list --clauses`)", clause,
                                          near.empty() ? "" : fmt::format(", closest is {}", near)));
  }
}

std::vector<reports::Waiver> read_waivers(const std::filesystem::path& file) {
  std::string text;
  try {
    text = read_input(file);
  } catch (const UnreadableFile& error) {
    throw CommandError(usage, fmt::format("--waivers: {}", error.what()));
  }
  try {
    return reports::parse_waivers(text);
  } catch (const std::invalid_argument& error) {
    throw CommandError(usage, fmt::format("--waivers {}: {}", file.string(), error.what()));
  }
}

}  // namespace

void put_demands(reports::RunHead& head, const DemandOptions& options, const Listing* listing) {
  if (listing) require_known(options.require, *listing);
  if (options.max_skips) head.demands.max_skips = options.max_skips;
  if (options.max_waivers) head.demands.max_waivers = options.max_waivers;
  if (!options.require.empty()) head.demands.require = options.require;
  if (!options.waivers.empty()) head.waivers = read_waivers(options.waivers);
}

}  // namespace shardproof::launcher

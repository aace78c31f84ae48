#include "launcher/run/demands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>

#include "harness/base/closest.hpp"
#include "harness/base/input_file.hpp"
#include "harness/protocol/subject_name.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {

using protocol::Listing;

namespace {

/// The clauses that the worker describes in a table or only cites. A program of plain multi-rank tests does not have to
/// have a table.
std::set<std::string> clauses_of(const Listing& listing) {
  std::set<std::string> ids;
  for (const protocol::ClauseInfo& clause : listing.clauses) ids.insert(clause.id);
  for (const protocol::CaseInfo& info : listing.cases) ids.insert(info.clauses.begin(), info.clauses.end());
  return ids;
}

void require_known(const std::vector<std::string>& clauses, const Listing& listing) {
  const std::set<std::string> known = clauses_of(listing);
  for (const std::string& clause : clauses) {
    if (known.contains(clause)) continue;
    const std::string near = base::closest(known, clause);
    throw CommandError(usage, fmt::format("--require {}: the worker has no such clause{} (`shardproof list --clauses`)",
                                          clause, near.empty() ? "" : fmt::format(", closest is {}", near)));
  }
}

std::vector<reports::Waiver> read_waivers(const std::filesystem::path& file) {
  std::string text;
  try {
    text = base::read_input(file);
  } catch (const base::UnreadableFile& error) {
    throw CommandError(usage, fmt::format("--waivers: {}", error.what()));
  }
  try {
    return reports::parse_waivers(text);
  } catch (const std::invalid_argument& error) {
    throw CommandError(usage, fmt::format("--waivers {}: {}", file.string(), error.what()));
  }
}

/// A waiver may name a subject of another worker. So only a name similar to a known name is a mistake.
std::string subject_mistake(const std::string& subject, const std::set<std::string>& known) {
  if (known.contains(subject)) return {};
  if (subject == protocol::former_reference_subject)
    return fmt::format("subject {} is called {} now", subject, protocol::reference_subject);
  const std::string near = base::closest(known, subject);
  return near.empty() ? std::string() : fmt::format("this worker has no subject {}, closest is {}", subject, near);
}

std::vector<std::string> waiver_mistakes(const std::vector<reports::Waiver>& waivers, const Listing& listing) {
  std::set<std::string> subjects{std::string(protocol::reference_subject), std::string(protocol::pytorch_subject)},
      faults;
  for (const protocol::SubjectInfo& subject : listing.subjects) subjects.insert(subject.name);
  for (const protocol::FaultInfo& fault : listing.faults) faults.insert(fault.name);
  std::vector<std::string> all;
  for (std::size_t i = 0; i < waivers.size(); ++i) {
    const reports::Waiver::When& when = waivers[i].when;
    const auto note = [&](const std::string& text) {
      if (!text.empty())
        all.push_back(
            fmt::format("waivers[{}] {} ({}): {}: correct the waiver", i, waivers[i].pattern, waivers[i].owner, text));
    };
    if (when.subject) note(subject_mistake(*when.subject, subjects));
    const bool is_here = !when.subject || std::ranges::find(listing.subjects, *when.subject,
                                                            &protocol::SubjectInfo::name) != listing.subjects.end();
    if (!when.fault || !is_here || faults.contains(*when.fault)) continue;
    const std::string near = base::closest(faults, *when.fault);
    note(fmt::format("this worker has no fault {}{}", *when.fault, near.empty() ? "" : ", closest is " + near));
  }
  return all;
}

}  // namespace

void apply_demands(reports::RunHead& head, const DemandOptions& options, const Listing* listing) {
  if (listing) require_known(options.require, *listing);
  if (options.max_skips) head.demands.max_skips = options.max_skips;
  if (options.max_waivers) head.demands.max_waivers = options.max_waivers;
  if (!options.require.empty()) head.demands.require = options.require;
  if (options.waivers.empty()) return;
  head.waivers = read_waivers(options.waivers);
  head.unknown_in_waivers = listing != nullptr ? waiver_mistakes(head.waivers, *listing) : std::vector<std::string>();
}

}  // namespace shardproof::launcher

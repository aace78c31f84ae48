#include "launcher/worker_client/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "harness/base/closest.hpp"
#include "harness/protocol/case_filter.hpp"
#include "launcher/launcher.hpp"

namespace shardproof::launcher {

using protocol::CaseInfo;
using protocol::ProfileInfo;

namespace {

const ProfileInfo& find_profile(const protocol::Listing& listing, const std::string& requested) {
  if (requested.empty()) return listing.profiles.front();
  const auto found = std::ranges::find(listing.profiles, requested, &ProfileInfo::name);
  if (found != listing.profiles.end()) return *found;
  if (listing.profiles.empty())
    throw CommandError(usage, fmt::format("unknown profile '{}': this worker has no profile", requested));
  std::vector<std::string> known;
  std::ranges::transform(listing.profiles, std::back_inserter(known), &ProfileInfo::name);
  throw CommandError(usage, base::unknown_name("profile", requested, known));
}

bool any_matches(const std::vector<CaseInfo>& cases, const std::string& filter) {
  return std::ranges::any_of(cases, [&](const CaseInfo& info) { return protocol::matches(info, filter); });
}

}  // namespace

ChosenProfile keep_profile(protocol::Listing& listing, const std::string& requested,
                           std::span<const std::string> filters) {
  if (requested.empty() && listing.profiles.empty()) return {};
  const ProfileInfo profile = find_profile(listing, requested);
  std::vector<CaseInfo> inside, outside;
  for (CaseInfo& info : listing.cases)
    (protocol::is_in(profile, info, listing) ? inside : outside).push_back(std::move(info));
  if (inside.empty() && !outside.empty())
    throw CommandError(
        usage, fmt::format("profile '{}' has no case of this worker (`shardproof list --profiles`)", profile.name));
  for (const std::string& filter : filters) {
    if (any_matches(outside, filter) && !any_matches(inside, filter))
      throw CommandError(
          usage, fmt::format("'{}' matches only cases outside profile '{}' (`shardproof list --profiles`)", filter,
                             profile.name));
  }
  listing.cases = std::move(inside);
  return {.name = profile.name, .outside = outside.size()};
}

}  // namespace shardproof::launcher

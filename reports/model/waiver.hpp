// A waiver: somebody's word that a failure is known, with a reason, an owner and a last day. Its file, and its JSON in a report. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/model/verdict.hpp"

namespace shardproof::reports {

struct Waiver {
  /// Where it holds; what is left out may be anything.
  struct When {
    std::optional<std::string> fabric, device, subject, fault;
    std::optional<int> world_size;
    friend bool operator==(const When&, const When&) = default;
  };

  /// A scenario that a reader can play to see what it is about.
  struct Demonstration {
    std::string scenario;               ///< its file, from where `link` leads from
    std::optional<int> ranks;           ///< none: as many as `play` takes by itself
    std::optional<std::string> beside;  ///< another subject, that the difference is to
    friend bool operator==(const Demonstration&, const Demonstration&) = default;
  };

  std::string pattern;  ///< a glob over case ids (see matches_id)
  Verdict verdict = Verdict::failed;  ///< the one that it excuses
  When when;
  std::string reason, link, owner;
  std::string expires;  ///< its last day, `2030-12-31`
  std::optional<Demonstration> shown_by;
  friend bool operator==(const Waiver&, const Waiver&) = default;
};

/// Only what a case did wrong can be waived: failed, error, hung, crashed. Where evidence is missing, there is nothing to waive.
bool is_waivable(Verdict verdict);

/// A day of the calendar, `2030-12-31`: such texts stand in the order of their days.
bool is_day(std::string_view text);

/// Version of the format. A file without a version is of version 1.
inline constexpr int waivers_version = 1;

/// `{"version": 1, "waivers": [{…}, …]}`. Throws std::invalid_argument naming waiver and field, as `waivers[2]: "expires": expected a day …`. A field
/// that no waiver has is an error too: a misspelt condition would waive more than was meant.
std::vector<Waiver> parse_waivers(std::string_view text);

void to_json(nlohmann::ordered_json& json, const Waiver& waiver);
/// Throws std::invalid_argument naming `place` and the field; fields that it does not know are left alone.
Waiver read_waiver(const nlohmann::ordered_json& json, std::string_view place);

}  // namespace shardproof::reports

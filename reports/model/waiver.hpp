// A waiver: a user's statement that a failure is known, with a reason, an owner and a last day. Reads the file of
// waivers, and their JSON in a report. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/model/verdict.hpp"

namespace shardproof::reports {

struct Waiver {
  /// Where the waiver holds. An absent field allows any value.
  struct When {
    std::optional<std::string> fabric, device, subject, fault;
    std::optional<int> world_size;
    friend bool operator==(const When&, const When&) = default;
  };

  /// A scenario that a reader can play to see the failure.
  struct Demonstration {
    std::string scenario;               ///< Its file, relative to the place that `link` leads to.
    std::optional<int> ranks;           ///< Empty: the number that `play` takes by itself.
    std::optional<std::string> other_subject;  ///< Another subject. The scenario shows the difference to it.
    friend bool operator==(const Demonstration&, const Demonstration&) = default;
  };

  std::string pattern;  ///< a glob over case ids (matches_id)
  Verdict verdict = Verdict::failed;  ///< the verdict that it excuses
  When when;
  std::string reason, link, owner;
  std::string expires;  ///< its last day, as `2030-12-31`
  std::optional<Demonstration> shown_by;
  friend bool operator==(const Waiver&, const Waiver&) = default;
};

/// Whether a waiver can excuse the verdict. A waiver can excuse only a case's own error: failed, error, hung, crashed.
/// It cannot excuse missing evidence.
bool is_waivable(Verdict verdict);

/// Whether the text is a calendar day, `2030-12-31`. Such texts sort like their days.
bool is_day(std::string_view text);

/// The version of the format. A file without a version has version 1.
inline constexpr int waivers_version = 1;

/// Reads `{"version": 1, "waivers": [{…}, …]}`. Throws std::invalid_argument naming waiver and field, as `waivers[2]:
/// "expires": expected a day …`. An unknown field is an error, too: a misspelt condition would waive more than the
/// author intended.
std::vector<Waiver> parse_waivers(std::string_view text);

void to_json(nlohmann::ordered_json& json, const Waiver& waiver);
/// Throws std::invalid_argument naming `place` and the field. Ignores unknown fields.
Waiver read_waiver(const nlohmann::ordered_json& json, std::string_view place);

}  // namespace shardproof::reports

// What a worker says about one of its cases when it is asked for a list; what a plan selects from and a report repeats.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

struct CaseInfo {
  std::string id;     ///< `suite/name[key=value,…]`, keys sorted, always with W
  std::string suite;  ///< the part of the id before the slash
  std::map<std::string, std::string> params;  ///< W among them
  int world_size = 1;
  std::vector<std::string> clauses;  ///< ids like OVL-1
  std::vector<std::string> tags;
  std::vector<std::string> needs;    ///< features a subject must claim for the engine kind, else the case is skipped
  std::string file;  ///< relative to the source root where that is known
  int line = 0;
  std::int64_t timeout_ms = 0;       ///< for the case on a core per rank; 0: whatever the run gives to every case
  bool on_request = false;           ///< it is played where its world size, or its id, is asked for, and in no other run
  bool on_threads = false;           ///< its ranks are to be threads of one process: in any other world it is skipped
  std::string engine;                ///< kind of engine that it plays on; empty: it names none
  /// The parameter whose number draws what the case plays. Each number from 1 on is a case, listed or not. Empty: the case draws nothing.
  std::string drawn_by;
  friend bool operator==(const CaseInfo&, const CaseInfo&) = default;
};

/// `suite/name[W=2,event=true]` from its parts.
std::string case_id(const std::string& name, const std::map<std::string, std::string>& params);

/// The case that another number draws, in place of the number of `like`. It runs on request. `like` must draw what it plays.
CaseInfo drawn_case(const CaseInfo& like, int number);
/// The number in the id of a case that is like this one but for its number; none for any other id.
std::optional<int> drawn_number(const CaseInfo& like, std::string_view id);

void to_json(nlohmann::ordered_json& json, const CaseInfo& info);
void from_json(const nlohmann::ordered_json& json, CaseInfo& info);

/// The claim of a subject for one kind of engine (harness/subject/claims.hpp).
struct ClaimInfo {
  std::string engine;
  std::vector<std::string> features;
  friend bool operator==(const ClaimInfo&, const ClaimInfo&) = default;
};

struct SubjectInfo {
  std::string name;
  std::string version;
  bool warm = false;  ///< ranks are to be copies of one process that has prepared it
  std::vector<ClaimInfo> claims;  ///< one for each kind, in the subject's order
  friend bool operator==(const SubjectInfo&, const SubjectInfo&) = default;
};

void to_json(nlohmann::ordered_json& json, const SubjectInfo& info);
void from_json(const nlohmann::ordered_json& json, SubjectInfo& info);

/// What a fault declares; `clauses` are those it breaks.
struct FaultInfo {
  std::string name;
  std::vector<std::string> clauses;
  std::string what;
  friend bool operator==(const FaultInfo&, const FaultInfo&) = default;
};

void to_json(nlohmann::ordered_json& json, const FaultInfo& info);
void from_json(const nlohmann::ordered_json& json, FaultInfo& info);

/// One line of a clause table: `required` clauses bind any right engine, the others only the model engine.
struct ClauseInfo {
  std::string id;
  bool required = true;
  std::string text;
  friend bool operator==(const ClauseInfo&, const ClauseInfo&) = default;
};

void to_json(nlohmann::ordered_json& json, const ClauseInfo& info);
void from_json(const nlohmann::ordered_json& json, ClauseInfo& info);

/// A part of the cases that somebody claims to pass, by what it needs and what it demands.
struct ProfileInfo {
  std::string name;
  std::string text;  ///< whom it is for
  int least_ranks = 1;
  std::optional<int> most_ranks;  ///< none: any number
  std::vector<std::string> tags;  ///< a case has one of these; empty: no matter which it has
  std::vector<std::string> without_tags;  ///< and none of these
  std::vector<std::string> needs;  ///< a case needs one of these features; empty: no matter which it needs
  std::vector<std::string> without_needs;  ///< and none of these
  bool required_only = false;  ///< no case with a clause that only the model engine must meet
  friend bool operator==(const ProfileInfo&, const ProfileInfo&) = default;
};

void to_json(nlohmann::ordered_json& json, const ProfileInfo& info);
void from_json(const nlohmann::ordered_json& json, ProfileInfo& info);

/// The seed test (file stem, test, its parameters) that a case descends from.
struct SeedInfo {
  std::string seed;  ///< `test_fully_shard_overlap.py::test_fully_shard_training_overlap`
  std::vector<std::string> cases;  ///< case ids
  friend bool operator==(const SeedInfo&, const SeedInfo&) = default;
};

void to_json(nlohmann::ordered_json& json, const SeedInfo& info);
void from_json(const nlohmann::ordered_json& json, SeedInfo& info);

/// The features that random scenarios for a kind of engine can combine.
struct Combinable {
  std::string engine;
  std::vector<std::string> features;  ///< and ingredients, sorted
  std::vector<std::pair<std::string, std::string>> excluded;  ///< pairs that no scenario has, each sorted
  friend bool operator==(const Combinable&, const Combinable&) = default;
};

void to_json(nlohmann::ordered_json& json, const Combinable& info);
void from_json(const nlohmann::ordered_json& json, Combinable& info);

/// The whole answer of `worker --list-json`. `protocol` and `suite_version` tell a launcher whether the worker is one of ours.
struct Listing {
  static constexpr int current_protocol = 2;
  int protocol = current_protocol;
  std::string suite_version;
  std::string build;  ///< build id of the worker binary: equal on all ranks of a world
  std::vector<std::string> engine_kinds;  ///< whose sections of plans it reads; empty: it does not say
  std::vector<std::string> drawn_kinds;  ///< kinds of engines for which it makes random scenarios, the preferred one first
  std::vector<Combinable> combinable;  ///< for each of these kinds
  std::vector<SubjectInfo> subjects;  ///< the first is the default; a program of plain multi-rank tests has none
  std::vector<CaseInfo> cases;
  std::vector<FaultInfo> faults;
  std::vector<ClauseInfo> clauses;
  std::vector<SeedInfo> seeds;
  std::vector<ProfileInfo> profiles;  ///< the first is the default; a program of plain multi-rank tests has none
  std::string why_no_threads;  ///< why ranks of this program cannot be threads; empty: they can
};

void to_json(nlohmann::ordered_json& json, const Listing& listing);
void from_json(const nlohmann::ordered_json& json, Listing& listing);

/// Whether the case belongs to the profile. A clause that the listing does not describe is taken for a required one.
bool is_in(const ProfileInfo& profile, const CaseInfo& info, const Listing& listing);

}  // namespace shardproof

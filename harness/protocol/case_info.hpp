// CaseInfo is a worker's description of one of its cases. The worker lists it, a plan selects from it, and a report
// repeats it.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof::protocol {

/// The tag of a case in which a runtime starts threads that it keeps. They are no finding.
inline constexpr std::string_view keeps_threads_tag = "keeps_threads";

struct CaseInfo {
  std::string id;     ///< `suite/name[key=value,…]` with sorted keys, always with W.
  std::string suite;  ///< The part of the id before the slash.
  std::map<std::string, std::string> params;  ///< Includes W.
  int world_size = 1;
  std::vector<std::string> clauses;  ///< Clause ids such as OVL-1.
  std::vector<std::string> tags;
  /// Features that a subject must claim for the engine kind. Otherwise the case is skipped.
  std::vector<std::string> needs;
  std::string file;  ///< Relative to the source root, where the root is known.
  int line = 0;
  std::int64_t timeout_ms = 0;       ///< Timeout with a core per rank. 0: the run's timeout for every case.
  bool on_request = false;           ///< Runs only where its world size or its id is requested.
  bool on_threads = false;           ///< Ranks must be threads of one process. Skipped in other worlds.
  int hosts = 1;                     ///< Ranks must be on this many hosts or more. Skipped in other worlds.
  std::string engine;                ///< Kind of engine that it plays on. Empty: it names none.
  /// The parameter whose number draws the scenario of the case. Each number from 1 on is a case, listed or not. Empty:
  /// the case draws nothing.
  std::string drawn_by;
  friend bool operator==(const CaseInfo&, const CaseInfo&) = default;
};

/// Makes `suite/name[W=2,event=true]` from its parts.
std::string case_id(const std::string& name, const std::map<std::string, std::string>& params);

/// The case with this number in place of `like`'s number. It runs on request. `like` must draw its scenario.
CaseInfo drawn_case(const CaseInfo& like, int number);
/// The number in the id of a case that differs from `like` only in its number. None for any other id.
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
  bool warm = false;  ///< Ranks must be copies of one process that has prepared the subject.
  std::vector<ClaimInfo> claims;  ///< One for each kind, in the subject's order.
  friend bool operator==(const SubjectInfo&, const SubjectInfo&) = default;
};

void to_json(nlohmann::ordered_json& json, const SubjectInfo& info);
void from_json(const nlohmann::ordered_json& json, SubjectInfo& info);

/// The declaration of a fault. `clauses` are the clauses that the fault breaks.
struct FaultInfo {
  std::string name;
  std::vector<std::string> clauses;
  std::string what;
  friend bool operator==(const FaultInfo&, const FaultInfo&) = default;
};

void to_json(nlohmann::ordered_json& json, const FaultInfo& info);
void from_json(const nlohmann::ordered_json& json, FaultInfo& info);

/// One line of a clause table. A `required` clause binds every correct engine; any other clause binds only the model
/// engine.
struct ClauseInfo {
  std::string id;
  bool required = true;
  std::string text;
  friend bool operator==(const ClauseInfo&, const ClauseInfo&) = default;
};

void to_json(nlohmann::ordered_json& json, const ClauseInfo& info);
void from_json(const nlohmann::ordered_json& json, ClauseInfo& info);

/// A named subset of the cases that a subject can claim to pass. The fields select cases by their ranks, tags, needed
/// features and clauses.
struct ProfileInfo {
  std::string name;
  std::string text;  ///< Describes the profile's users.
  int least_ranks = 1;
  std::optional<int> most_ranks;  ///< None: any number.
  std::vector<std::string> tags;  ///< A case has at least one of these. Empty: any tags.
  std::vector<std::string> without_tags;  ///< A case has no tag of these.
  std::vector<std::string> needs;  ///< A case needs at least one of these features. Empty: any needs.
  std::vector<std::string> without_needs;  ///< A case needs no feature of these.
  bool required_only = false;  ///< Excludes cases with a clause that only the model engine must meet.
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
  std::vector<std::string> features;  ///< Sorted. Contains ingredients, too.
  std::vector<std::pair<std::string, std::string>> excluded;  ///< Pairs that no scenario has, each sorted.
  friend bool operator==(const Combinable&, const Combinable&) = default;
};

void to_json(nlohmann::ordered_json& json, const Combinable& info);
void from_json(const nlohmann::ordered_json& json, Combinable& info);

/// The complete answer of `worker --list-json`. The launcher checks `protocol` and `suite_version` to recognize a
/// shardproof worker.
struct Listing {
  static constexpr int current_protocol = 2;
  int protocol = current_protocol;
  std::string suite_version;
  std::string build;  ///< Build id of the worker binary. Equal on all ranks of a world.
  std::vector<std::string> engine_kinds;  ///< Kinds whose plan sections the worker reads. Empty: not reported.
  /// Kinds of engines for which the worker makes random scenarios, the preferred one first.
  std::vector<std::string> drawn_kinds;
  std::vector<Combinable> combinable;  ///< One for each of these kinds.
  /// The first is the default. Empty for a program of plain multi-rank tests.
  std::vector<SubjectInfo> subjects;
  std::vector<CaseInfo> cases;
  std::vector<FaultInfo> faults;
  std::vector<ClauseInfo> clauses;
  std::vector<SeedInfo> seeds;
  /// The first is the default. Empty for a program of plain multi-rank tests.
  std::vector<ProfileInfo> profiles;
  bool warm = false;  ///< Ranks can be copies of one process of the program (warm_socket.hpp).
  std::string why_no_threads;  ///< The reason why ranks cannot be threads. Empty: they can.
};

void to_json(nlohmann::ordered_json& json, const Listing& listing);
void from_json(const nlohmann::ordered_json& json, Listing& listing);

/// True when the case belongs to the profile. A clause that the listing does not describe counts as required.
bool is_in(const ProfileInfo& profile, const CaseInfo& info, const Listing& listing);

}  // namespace shardproof::protocol

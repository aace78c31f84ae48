#include "harness/protocol/case_info.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "harness/base/json_fields.hpp"
#include "harness/base/utf8.hpp"

namespace shardproof::protocol {

using base::Fields;
using base::refuse;

using nlohmann::ordered_json;

namespace {

/// A character of the id's own syntax within a part could give two different cases the same id.
void check_part(const std::string& name, std::string_view what, const std::string& part, std::string_view forbidden) {
  const auto bad = part.find_first_of(forbidden);
  const bool control =
      std::any_of(part.begin(), part.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  if (part.empty() || bad != std::string::npos || control) {
    throw std::invalid_argument(
        fmt::format("case \"{}\": {} \"{}\" must not be empty nor contain control characters or any of {}", name, what,
                    control ? std::string() : part, forbidden));
  }
  // A plan would repair text that is not UTF-8, and the repaired id would match no case.
  if (!base::is_utf8(part))
    throw std::invalid_argument(fmt::format("case \"{}\": {} \"{}\" is not UTF-8", name, what, part));
}

}  // namespace

std::string case_id(const std::string& name, const std::map<std::string, std::string>& params) {
  check_part(name, "name", name, "[]*?");
  if (params.empty()) return name;
  std::string id = name;
  char separator = '[';
  for (const auto& [key, value] : params) {
    check_part(name, "parameter", key, "[],=*?");
    check_part(name, "value of parameter " + key, value, "[],*?");
    id += separator;
    id += key;
    id += '=';
    id += value;
    separator = ',';
  }
  id += ']';
  return id;
}

CaseInfo drawn_case(const CaseInfo& like, int number) {
  CaseInfo info = like;
  info.params.at(like.drawn_by) = std::to_string(number);
  info.id = case_id(like.id.substr(0, like.id.find('[')), info.params);
  info.on_request = true;
  return info;
}

std::optional<int> drawn_number(const CaseInfo& like, std::string_view id) {
  if (like.drawn_by.empty()) return std::nullopt;
  const std::string& own = like.params.at(like.drawn_by);
  // Finds `seed=`, and not the end of another key. Both ids have the same beginning.
  std::size_t begin = like.id.find(like.drawn_by + "=" + own, like.id.find('['));
  while (like.id[begin - 1] != '[' && like.id[begin - 1] != ',')
    begin = like.id.find(like.drawn_by + "=" + own, begin + 1);
  begin += like.drawn_by.size() + 1;
  const std::string_view before = std::string_view(like.id).substr(0, begin),
                         after = std::string_view(like.id).substr(begin + own.size());
  if (id.size() <= before.size() + after.size() || !id.starts_with(before) || !id.ends_with(after)) return std::nullopt;
  const std::string_view digits = id.substr(begin, id.size() - before.size() - after.size());
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_whole = error == std::errc() && end == digits.data() + digits.size();
  // `007` would be a second id of the case.
  return is_whole && number >= 1 && digits.front() != '0' ? std::optional(number) : std::nullopt;
}

void to_json(ordered_json& json, const CaseInfo& info) {
  json = ordered_json{
      {"id", info.id},           {"suite", info.suite}, {"params", info.params}, {"world_size", info.world_size},
      {"clauses", info.clauses}, {"tags", info.tags},   {"needs", info.needs},   {"file", info.file},
      {"line", info.line}};
  if (!info.engine.empty()) json["engine"] = info.engine;
  if (info.timeout_ms > 0) json["timeout_ms"] = info.timeout_ms;
  if (info.on_request) json["on_request"] = true;
  if (info.on_threads) json["on_threads"] = true;
  if (info.hosts > 1) json["hosts"] = info.hosts;
  if (!info.drawn_by.empty()) json["drawn_by"] = info.drawn_by;
}

void from_json(const ordered_json& json, CaseInfo& info) {
  const Fields fields(json, "case");
  info.id = fields.text("id");
  info.suite = fields.text("suite");
  info.params = fields.text_map("params");
  info.world_size = fields.integer<int>("world_size");
  if (info.world_size < 1) refuse(fields.where("world_size"), "at least 1", json["world_size"]);
  info.clauses = fields.texts("clauses");
  info.tags = fields.texts("tags");
  info.needs = fields.texts("needs");
  info.file = fields.text("file");
  info.line = fields.integer<int>("line");
  if (fields.has("engine")) info.engine = fields.text("engine");
  if (fields.has("timeout_ms")) {
    info.timeout_ms = fields.integer<std::int64_t>("timeout_ms");
    if (info.timeout_ms < 0) refuse(fields.where("timeout_ms"), "at least 0", json["timeout_ms"]);
  }
  info.on_request = fields.has("on_request") && fields.boolean("on_request");
  info.on_threads = fields.has("on_threads") && fields.boolean("on_threads");
  if (fields.has("hosts")) info.hosts = fields.integer<int>("hosts", 1);
  if (fields.has("drawn_by")) {
    info.drawn_by = fields.text("drawn_by");
    if (!info.params.contains(info.drawn_by))
      refuse(fields.where("drawn_by"), "a parameter of the case", json["drawn_by"]);
  }
}

void to_json(ordered_json& json, const SubjectInfo& info) {
  json = ordered_json{{"name", info.name}, {"version", info.version}};
  if (info.warm) json["warm"] = true;
  if (info.claims.empty()) return;
  ordered_json& claims = json["claims"];
  for (const ClaimInfo& claim : info.claims) claims[claim.engine] = claim.features;
}

void from_json(const ordered_json& json, SubjectInfo& info) {
  const Fields fields(json, "subject");
  info.name = fields.text("name");
  info.version = fields.text("version");
  info.warm = fields.has("warm") && fields.boolean("warm");
  if (!fields.has("claims")) return;
  for (const auto& [engine, features] : fields.object("claims").items())
    info.claims.push_back({.engine = engine, .features = base::read_texts(features, fields.where("claims"))});
}

void to_json(ordered_json& json, const FaultInfo& info) {
  json = ordered_json{{"name", info.name}, {"clauses", info.clauses}, {"what", info.what}};
}

void from_json(const ordered_json& json, FaultInfo& info) {
  const Fields fields(json, "fault");
  info.name = fields.text("name");
  info.clauses = fields.texts("clauses");
  info.what = fields.text("what");
}

void to_json(ordered_json& json, const ClauseInfo& info) {
  json = ordered_json{{"id", info.id}, {"required", info.required}, {"text", info.text}};
}

void from_json(const ordered_json& json, ClauseInfo& info) {
  const Fields fields(json, "clause");
  info.id = fields.text("id");
  info.required = fields.boolean("required");
  info.text = fields.text("text");
}

void to_json(ordered_json& json, const ProfileInfo& info) {
  json = ordered_json{{"name", info.name},
                      {"text", info.text},
                      {"least_ranks", info.least_ranks},
                      {"most_ranks", info.most_ranks ? ordered_json(*info.most_ranks) : ordered_json(nullptr)},
                      {"tags", info.tags},
                      {"without_tags", info.without_tags},
                      {"required_only", info.required_only}};
  if (!info.needs.empty()) json["needs"] = info.needs;
  if (!info.without_needs.empty()) json["without_needs"] = info.without_needs;
}

void from_json(const ordered_json& json, ProfileInfo& info) {
  const Fields fields(json, "profile");
  info.name = fields.text("name");
  info.text = fields.text("text");
  info.least_ranks = fields.integer<int>("least_ranks");
  const auto& most = fields.at("most_ranks", "an integer or null");
  info.most_ranks =
      most.is_null() ? std::nullopt : std::optional(base::read_integer<int>(most, fields.where("most_ranks")));
  info.tags = fields.texts("tags");
  info.without_tags = fields.texts("without_tags");
  info.required_only = fields.boolean("required_only");
  if (fields.has("needs")) info.needs = fields.texts("needs");
  if (fields.has("without_needs")) info.without_needs = fields.texts("without_needs");
}

void to_json(ordered_json& json, const SeedInfo& info) {
  json = ordered_json{{"seed", info.seed}, {"cases", info.cases}};
}

void from_json(const ordered_json& json, SeedInfo& info) {
  const Fields fields(json, "seed");
  info.seed = fields.text("seed");
  info.cases = fields.texts("cases");
}

void to_json(ordered_json& json, const Combinable& info) {
  json = ordered_json{{"engine", info.engine}, {"features", info.features}, {"excluded", info.excluded}};
}

void from_json(const ordered_json& json, Combinable& info) {
  const Fields fields(json, "combinable");
  info.engine = fields.text("engine");
  info.features = fields.texts("features");
  for (const ordered_json& entry : fields.array("excluded")) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_string())
      refuse(fields.where("excluded"), "pairs of texts", entry);
    info.excluded.emplace_back(entry[0].get<std::string>(), entry[1].get<std::string>());
  }
}

void to_json(ordered_json& json, const Listing& listing) {
  json = ordered_json{{"protocol", listing.protocol}, {"suite_version", listing.suite_version},
                      {"build", listing.build},       {"subjects", listing.subjects},
                      {"cases", listing.cases},       {"faults", listing.faults},
                      {"clauses", listing.clauses},   {"seeds", listing.seeds},
                      {"profiles", listing.profiles}};
  if (!listing.engine_kinds.empty()) json["engine_kinds"] = listing.engine_kinds;
  if (!listing.drawn_kinds.empty()) json["drawn_kinds"] = listing.drawn_kinds;
  if (!listing.combinable.empty()) json["combinable"] = listing.combinable;
  if (listing.warm) json["warm"] = true;
  if (!listing.why_no_threads.empty()) json["why_no_threads"] = listing.why_no_threads;
}

void from_json(const ordered_json& json, Listing& listing) {
  const Fields fields(json, "listing");
  listing.protocol = fields.integer<int>("protocol");
  // Read the protocol first and alone, because the other fields may have another meaning in another protocol.
  if (listing.protocol != Listing::current_protocol) {
    throw std::invalid_argument(
        fmt::format("listing: the worker speaks protocol {}, this launcher speaks {}; build both from one source",
                    listing.protocol, Listing::current_protocol));
  }
  listing.suite_version = fields.text("suite_version");
  listing.build = fields.text("build");
  listing.subjects = fields.list<SubjectInfo>("subjects");
  listing.cases = fields.list<CaseInfo>("cases");
  listing.faults = fields.list<FaultInfo>("faults");
  listing.clauses = fields.list<ClauseInfo>("clauses");
  listing.seeds = fields.list<SeedInfo>("seeds");
  listing.profiles = fields.list<ProfileInfo>("profiles");
  if (fields.has("engine_kinds")) listing.engine_kinds = fields.texts("engine_kinds");
  if (fields.has("drawn_kinds")) listing.drawn_kinds = fields.texts("drawn_kinds");
  if (fields.has("combinable")) listing.combinable = fields.list<Combinable>("combinable");
  listing.warm = fields.has("warm") && fields.boolean("warm");
  if (fields.has("why_no_threads")) listing.why_no_threads = fields.text("why_no_threads");
}

bool is_in(const ProfileInfo& profile, const CaseInfo& info, const Listing& listing) {
  const auto share_one = [](const std::vector<std::string>& some, const std::vector<std::string>& others) {
    return std::ranges::find_first_of(some, others) != some.end();
  };
  const auto is_among = [&](const std::vector<std::string>& wanted, const std::vector<std::string>& unwanted,
                            const std::vector<std::string>& has) {
    return (wanted.empty() || share_one(has, wanted)) && !share_one(has, unwanted);
  };
  const auto is_reference = [&](const std::string& id) {
    const auto clause = std::ranges::find(listing.clauses, id, &ClauseInfo::id);
    return clause != listing.clauses.end() && !clause->required;
  };
  return info.world_size >= profile.least_ranks && info.world_size <= profile.most_ranks.value_or(info.world_size) &&
         is_among(profile.tags, profile.without_tags, info.tags) &&
         is_among(profile.needs, profile.without_needs, info.needs) &&
         !(profile.required_only && std::ranges::any_of(info.clauses, is_reference));
}

}  // namespace shardproof::protocol

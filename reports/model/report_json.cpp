#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <istream>
#include <ostream>
#include <stdexcept>

#include "harness/base/json_fields.hpp"
#include "harness/base/json_parse.hpp"
#include "reports/model/findings.hpp"
#include "reports/model/report.hpp"
#include "reports/model/waivers.hpp"

namespace shardproof::reports {

using nlohmann::ordered_json;

namespace {

constexpr std::array<std::string_view, 14> volatile_places{
    "run/id",
    "run/started",
    "run/argv",
    "run/environment",
    "run/git_commit",
    "machine",
    "subject/warnings",  // not all ranks are copies of a warm process
    "worlds/*/number",  // simultaneous worlds begin when others end
    "worlds/*/environment",  // depends on which GPU is free first
    "worlds/*/endings",  // when a rank dies, some of the other ranks are stopped before they leave
    "worlds/*/explanation",  // contains waiting times of ranks
    "worlds/*/nccl",  // the last calls of ranks that were ended
    "cases/*/duration_ns",
    "cases/*/failures/*/monotonic_ns"};

ordered_json text_or_null(const std::string& text) { return text.empty() ? ordered_json(nullptr) : ordered_json(text); }

std::string read_text_or_null(const Fields& fields, const char* name) {
  const auto& value = fields.at(name, "a text or null");
  return value.is_null() ? std::string() : read_text(value, fields.where(name));
}

/// Runs `read`, and puts the place before the text of its errors.
template <class Read>
void within(const std::string& place, const Read& read) {
  try {
    read();
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(place + ": " + error.what());
  }
}

// -- A case --

ordered_json json_of(const RankOutcome& rank) {
  return {{"outcome", to_string(rank.outcome)}, {"assertions", rank.assertions}};
}

ordered_json json_of(const Failure& failure) {
  const auto& a = failure.assertion;
  return {{"rank", failure.rank},          {"file", a.file},           {"line", a.line},         {"macro", a.macro},
          {"expression", a.expression},    {"expansion", a.expansion}, {"messages", a.messages}, {"clauses", a.clauses},
          {"monotonic_ns", a.monotonic_ns}};
}

ordered_json json_of(const CaseResult& result, bool flaky) {
  ordered_json ranks = ordered_json::array();
  for (const auto& rank : result.ranks) ranks.push_back(json_of(rank));
  for (const auto& [rank, reason] : result.reasons) ranks.at(static_cast<std::size_t>(rank))["reason"] = reason;
  ordered_json measurements = ordered_json::object();
  for (const auto& [name, measurement] : result.measurements) {
    measurements[name] = ordered_json{{"value", measurement.value}, {"unit", measurement.unit}};
  }
  ordered_json failures = ordered_json::array();
  for (const auto& failure : result.failures) failures.push_back(json_of(failure));
  const auto& info = result.info;
  ordered_json json{{"id", info.id},
                    {"suite", info.suite},
                    {"params", info.params},
                    {"world_size", info.world_size},
                    {"world", result.world},
                    {"repetition", result.repetition},
                    {"clauses", info.clauses},
                    {"tags", info.tags},
                    {"needs", info.needs},
                    {"file", info.file},
                    {"line", info.line},
                    {"verdict", to_string(result.verdict)},
                    {"flaky", flaky},
                    {"waived", result.waiver >= 0},
                    {"assertions", result.assertions},
                    {"measurements", std::move(measurements)},
                    {"ranks", std::move(ranks)},
                    {"notes", result.notes},
                    {"failures", std::move(failures)},
                    {"failures_left_out", result.failures_left_out},
                    {"duration_ns", result.duration_ns}};
  if (!info.engine.empty()) json["engine"] = info.engine;
  if (result.attempt > 0) json["attempt"] = result.attempt;
  if (result.superseded) json["superseded"] = true;
  if (result.skipped_by >= 0) json["skipped_by"] = result.skipped_by;
  if (result.unclaimed) json["unclaimed"] = true;
  if (!result.combined.empty()) json["combined"] = result.combined;
  if (result.waiver >= 0) json["waiver"] = result.waiver;
  return json;
}

Outcome read_outcome(const Fields& fields, const ordered_json& json) {
  const auto outcome = outcome_from_string(fields.text("outcome"));
  if (!outcome) refuse(fields.where("outcome"), "an outcome", json["outcome"]);
  return *outcome;
}

/// Returns -1 if the field is absent.
int read_index_if_given(const Fields& fields, const char* name) {
  if (!fields.has(name)) return -1;
  const int index = fields.integer<int>(name);
  if (index < 0) refuse(fields.where(name), "no negative number", fields.at(name, "an index"));
  return index;
}

void read_rank(const ordered_json& json, CaseResult& result) {
  const Fields fields(json, "rank");
  const int rank = static_cast<int>(result.ranks.size());
  result.ranks.push_back({read_outcome(fields, json), fields.integer<std::uint64_t>("assertions")});
  if (fields.has("reason")) result.reasons[rank] = fields.text("reason");
}

Failure read_failure(const ordered_json& json) {
  const Fields fields(json, "failure");
  return {.rank = fields.integer<int>("rank"),
          .assertion = {.file = fields.text("file"),
                        .line = fields.integer<int>("line"),
                        .macro = fields.text("macro"),
                        .expression = fields.text("expression"),
                        .expansion = fields.text("expansion"),
                        .messages = fields.texts("messages"),
                        .clauses = fields.texts("clauses"),
                        .monotonic_ns = fields.integer<std::int64_t>("monotonic_ns")}};
}

CaseResult read_case(const ordered_json& json) {
  const Fields fields(json, "case");
  CaseResult result;
  from_json(json, result.info);
  result.world = fields.integer<int>("world");
  result.repetition = fields.integer<std::uint64_t>("repetition");
  const auto verdict = verdict_from_string(fields.text("verdict"));
  if (!verdict) refuse(fields.where("verdict"), "a verdict", json["verdict"]);
  result.verdict = *verdict;
  result.assertions = fields.integer<std::uint64_t>("assertions");
  for (const auto& [name, value] : fields.object("measurements").items()) {
    const Fields measurement(value, "measurement");
    result.measurements[name] = {measurement.number("value"), measurement.text("unit")};
  }
  const auto& ranks = fields.array("ranks");
  result.ranks.reserve(ranks.size());
  for (const auto& rank : ranks) read_rank(rank, result);
  result.notes = fields.texts("notes");
  for (const auto& failure : fields.array("failures")) result.failures.push_back(read_failure(failure));
  if (fields.has("attempt")) result.attempt = fields.integer<int>("attempt");
  if (fields.has("superseded")) result.superseded = fields.boolean("superseded");
  result.failures_left_out = fields.integer<std::uint64_t>("failures_left_out");
  result.duration_ns = fields.integer<std::int64_t>("duration_ns");
  result.skipped_by = read_index_if_given(fields, "skipped_by");
  result.unclaimed = fields.has("unclaimed") && fields.boolean("unclaimed");
  if (fields.has("combined")) result.combined = fields.texts("combined");
  result.waiver = read_index_if_given(fields, "waiver");
  return result;
}

// -- The rest --

ordered_json json_of(const WorldResult& world) {
  ordered_json json{{"fabric", world.fabric}, {"device", world.device}, {"ranks", world.size}};
  if (!world.environment.empty()) json["environment"] = world.environment;
  if (!world.unfit_for_timing.empty()) json["unfit_for_timing"] = world.unfit_for_timing;
  if (world.times != event_times) json["times"] = world.times;
  json["endings"] = world.endings;
  json["defects"] = world.defects;
  if (!world.explanation.empty()) json["explanation"] = world.explanation;
  if (!world.nccl.empty()) json["nccl"] = world.nccl;
  return json;
}

WorldResult read_world(const ordered_json& json, int place) {
  const Fields fields(json, "world");
  WorldResult world;
  const int number = read_index_if_given(fields, "number");
  world.number = number < 0 ? place : number;
  world.fabric = fields.text("fabric");
  world.device = fields.text("device");
  world.size = fields.integer<int>("ranks");
  if (fields.has("environment")) {
    for (const auto& variables : fields.array("environment"))
      world.environment.push_back(read_text_map(variables, fields.where("environment")));
  }
  if (fields.has("unfit_for_timing")) world.unfit_for_timing = fields.text("unfit_for_timing");
  if (fields.has("times")) world.times = fields.text("times");
  world.endings = fields.list<Ending>("endings");
  world.defects = fields.texts("defects");
  if (fields.has("explanation")) world.explanation = fields.text("explanation");
  if (fields.has("nccl")) world.nccl = fields.texts("nccl");
  return world;
}

ordered_json summary_of(const Report& report, std::size_t flaky) {
  ordered_json summary{{"cases", report.counted()}};
  for (const auto& [verdict, count] : report.counts()) summary[std::string(to_string(verdict))] = count;
  summary["flaky"] = flaky;
  summary["waived"] = report.waived();
  return summary;
}

ordered_json skips_of(const Report& report) {
  ordered_json skips = ordered_json::array();
  for (const auto& result : report.cases) {
    if (result.verdict != Verdict::skipped) continue;
    skips.push_back({{"id", result.info.id},
                     {"repetition", result.repetition},
                     {"reason", skip_reason(result)},
                     {"by", result.skipped_by < 0 ? ordered_json(nullptr) : ordered_json(result.skipped_by)}});
  }
  return skips;
}

ordered_json requirements_of(const Report& report) {
  ordered_json all = ordered_json::array();
  for (const auto& requirement : requirements(report))
    all.push_back({{"clause", requirement.clause}, {"cases", requirement.cases}, {"passed", requirement.passed}});
  return all;
}

ordered_json waivers_of(const Report& report) {
  ordered_json all = report.head.waivers;
  const auto uses = waiver_uses(report);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    all[i]["state"] = to_string(uses[i].state);
    all[i]["waived"] = uses[i].waived;
    all[i]["passed"] = uses[i].passed;
  }
  return all;
}

/// The whole document, with an empty `cases` in its place.
ordered_json frame_of(const Report& report, std::size_t flaky) {
  ordered_json frame{{"schema_version", schema_version}};
  const ordered_json head = report.head;
  for (const auto& [key, value] : head.items()) {
    if (key != "waivers") frame[key] = value;
  }
  frame["summary"] = summary_of(report, flaky);
  ordered_json worlds = ordered_json::array();
  for (const auto& world : report.worlds) {
    const bool is_in_order = std::cmp_equal(world.number, worlds.size());
    auto& json = worlds.emplace_back(json_of(world));
    if (!is_in_order) json["number"] = world.number;
  }
  frame["worlds"] = std::move(worlds);
  frame["cases"] = ordered_json::array();
  frame["skips"] = skips_of(report);
  frame["requirements"] = requirements_of(report);
  frame["waivers"] = waivers_of(report);
  return frame;
}

void check_version(const ordered_json& version) {
  const auto number = read_integer<int>(version, "report: \"schema_version\"");
  if (number != schema_version) {
    throw std::invalid_argument(
        fmt::format("report: schema version {}; this shardproof reads version {}{}", number, schema_version,
                    number > schema_version ? ": use the shardproof that wrote it, or a newer one" : ""));
  }
}

/// Reads all except the cases.
Report read_frame(const ordered_json& json) {
  const Fields fields(json, "report");
  check_version(fields.at("schema_version", "an integer"));
  Report report;
  from_json(json, report.head);
  const auto& worlds = fields.array("worlds");
  for (std::size_t i = 0; i < worlds.size(); ++i) {
    within(fmt::format("worlds[{}]", i), [&] { report.worlds.push_back(read_world(worlds[i], static_cast<int>(i))); });
  }
  return report;
}

/// Checks that a case's indices and waiver are valid.
void check_indices(const Report& report) {
  const auto check = [](std::size_t i, const char* name, int index, std::size_t count, const char* what) {
    if (index >= 0 && std::cmp_less(index, count)) return;
    throw std::invalid_argument(
        fmt::format("cases[{}]: \"{}\": expected an index into {} {}, found {}", i, name, count, what, index));
  };
  for (std::size_t i = 0; i < report.cases.size(); ++i) {
    const auto& result = report.cases[i];
    check(i, "world", result.world, report.worlds.size(), "worlds");
    if (result.skipped_by >= 0) check(i, "skipped_by", result.skipped_by, result.ranks.size(), "ranks");
    if (result.waiver < 0) continue;
    check(i, "waiver", result.waiver, report.head.waivers.size(), "waivers");
    const Verdict excused = report.head.waivers[static_cast<std::size_t>(result.waiver)].verdict;
    if (excused == result.verdict) continue;
    throw std::invalid_argument(fmt::format("cases[{}]: \"waiver\": expected a waiver of {}, found one of {}", i,
                                            to_string(result.verdict), to_string(excused)));
  }
}

ordered_json number_or_null(const std::optional<std::size_t>& number) {
  return number ? ordered_json(*number) : ordered_json(nullptr);
}

std::optional<std::size_t> read_number_or_null(const Fields& fields, const char* name) {
  const auto& value = fields.at(name, "a number or null");
  return value.is_null() ? std::nullopt : std::optional(read_integer<std::size_t>(value, fields.where(name)));
}

ordered_json json_of(const Demands& demands) {
  return {{"max_skips", number_or_null(demands.max_skips)},
          {"max_waivers", number_or_null(demands.max_waivers)},
          {"require", demands.require}};
}

Demands read_demands(const ordered_json& json) {
  const Fields fields(json, "report: run: demands");
  return {.max_skips = read_number_or_null(fields, "max_skips"),
          .max_waivers = read_number_or_null(fields, "max_waivers"),
          .require = fields.texts("require")};
}

ordered_json json_of_machine(const RunHead& head) {
  ordered_json json = head.machine;
  if (!head.gpus.empty()) json["gpus"] = head.gpus;
  return json;
}

void read_machine(const ordered_json& json, RunHead& head) {
  ordered_json texts = json;
  texts.erase("gpus");
  head.machine = read_text_map(texts, "report: \"machine\"");
  const Fields fields(json, "report: machine");
  if (fields.has("gpus")) head.gpus = fields.list<GpuInfo>("gpus");
}

ordered_json* find(ordered_json& json, const char* key) {
  const auto found = json.find(key);
  return found == json.end() ? nullptr : &*found;
}

void drop(ordered_json& json, std::string_view place) {
  const auto slash = place.find('/');
  const auto step = place.substr(0, slash);
  const bool is_last = slash == std::string_view::npos;
  if (step == "*") {
    if (!json.is_array()) return;
    for (auto& element : json) drop(element, place.substr(slash + 1));
    return;
  }
  const std::string key(step);
  if (!json.is_object() || !json.contains(key)) return;
  if (is_last) {
    json.erase(key);
  } else {
    drop(json[key], place.substr(slash + 1));
  }
}

}  // namespace

void to_json(ordered_json& json, const RunHead& head) {
  json = ordered_json{
      {"suite_version", head.suite_version},
      {"run",
       {{"id", head.run_id},
        {"started", head.started},
        {"argv", head.argv},
        {"seed", head.seed},
        {"repeat", head.repeat},
        {"partial", head.partial},
        {"outside_profile", head.outside_profile},
        {"demands", json_of(head.demands)},
        {"git_commit", head.git_commit},
        {"environment", head.environment}}},
      {"machine", json_of_machine(head)},
      {"subject", {{"name", head.subject}, {"version", head.subject_version}, {"fault", text_or_null(head.fault)}}},
      {"profile", head.profile},
      {"waivers", head.waivers}};
  if (!head.unknown_kinds.empty()) json["subject"]["unknown_kinds"] = head.unknown_kinds;
  if (!head.unknown_in_waivers.empty()) json["run"]["unknown_in_waivers"] = head.unknown_in_waivers;
  if (!head.warnings.empty()) json["subject"]["warnings"] = head.warnings;
}

void from_json(const ordered_json& json, RunHead& head) {
  const Fields fields(json, "report");
  head.suite_version = fields.text("suite_version");
  const Fields run(fields.object("run"), "report: run");
  head.run_id = run.text("id");
  head.started = run.text("started");
  head.argv = run.texts("argv");
  head.seed = run.integer<std::uint64_t>("seed");
  head.repeat = run.integer<int>("repeat");
  head.partial = run.boolean("partial");
  // The first reports of this version had no demands and no waivers.
  if (run.has("outside_profile")) head.outside_profile = run.integer<std::size_t>("outside_profile");
  if (run.has("unknown_in_waivers")) head.unknown_in_waivers = run.texts("unknown_in_waivers");
  if (run.has("demands")) head.demands = read_demands(run.object("demands"));
  head.git_commit = run.text("git_commit");
  head.environment = run.text_map("environment");
  read_machine(fields.object("machine"), head);
  const Fields subject(fields.object("subject"), "report: subject");
  head.subject = subject.text("name");
  head.subject_version = subject.text("version");
  head.fault = read_text_or_null(subject, "fault");
  if (subject.has("unknown_kinds")) head.unknown_kinds = subject.texts("unknown_kinds");
  if (subject.has("warnings")) head.warnings = subject.texts("warnings");
  head.profile = fields.text("profile");
  head.waivers.clear();
  if (!fields.has("waivers")) return;
  for (const auto& waiver : fields.array("waivers"))
    head.waivers.push_back(read_waiver(waiver, fmt::format("report: waivers[{}]", head.waivers.size())));
}

ordered_json to_json(const Report& report) {
  const auto flaky = report.flaky();
  auto json = frame_of(report, flaky.size());
  auto& cases = json["cases"];
  for (const auto& result : report.cases)
    cases.push_back(json_of(result, std::binary_search(flaky.begin(), flaky.end(), result.info.id)));
  return json;
}

void write_report(std::ostream& out, const Report& report) {
  const auto flaky = report.flaky();
  const auto frame = frame_of(report, flaky.size());
  const auto list = [&out](std::size_t size, const auto& element) {
    out << '[';
    for (std::size_t i = 0; i < size; ++i) out << (i == 0 ? "\n    " : ",\n    ") << dump_line(element(i));
    out << (size == 0 ? "]" : "\n  ]");
  };
  const char* separator = "{\n  ";
  for (const auto& [key, value] : frame.items()) {
    out << separator << '"' << key << "\": ";
    separator = ",\n  ";
    if (key == "cases") {
      list(report.cases.size(), [&](std::size_t i) {
        return json_of(report.cases[i], std::binary_search(flaky.begin(), flaky.end(), report.cases[i].info.id));
      });
    } else if (value.is_array()) {
      list(value.size(), [&elements = value](std::size_t i) { return elements[i]; });
    } else {
      out << dump_line(value);
    }
  }
  out << "\n}\n";
}

Report from_json(const ordered_json& json) {
  auto report = read_frame(json);
  const auto& cases = Fields(json, "report").array("cases");
  report.cases.reserve(cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    within(fmt::format("cases[{}]", i), [&] { report.cases.push_back(read_case(cases[i])); });
  }
  check_indices(report);
  return report;
}

Report read_report(std::istream& in) {
  // Each case is read and dropped as soon as it is complete: most of the report of many ranks is cases.
  constexpr int top = 1;
  constexpr int element = 2;
  std::vector<CaseResult> cases;
  std::string key;
  const ordered_json::parser_callback_t take = [&](int depth, ordered_json::parse_event_t event, ordered_json& parsed) {
    using Event = ordered_json::parse_event_t;
    if (depth == top && event == Event::key) key = parsed.get_ref<const std::string&>();
    if (depth == top && event == Event::value && key == "schema_version") check_version(parsed);
    if (depth != element || event != Event::object_end || key != "cases") return true;
    within(fmt::format("cases[{}]", cases.size()), [&] { cases.push_back(read_case(parsed)); });
    return false;
  };
  ordered_json json;
  try {
    json = parse_json(in, take);
  } catch (const ordered_json::parse_error& error) {
    throw std::invalid_argument(fmt::format("report: no JSON at byte {}", error.byte));
  } catch (const ordered_json::exception&) {
    throw std::invalid_argument("report: a number is out of range");
  }
  auto report = read_frame(json);
  const auto& rest = Fields(json, "report").array("cases");
  if (!rest.empty()) throw std::invalid_argument("report: \"cases\": expected an array of objects");
  report.cases = std::move(cases);
  check_indices(report);
  return report;
}

std::span<const std::string_view> volatile_fields() { return volatile_places; }

ordered_json stable_part(const ordered_json& report) {
  auto stable = report;
  for (const auto place : volatile_places) drop(stable, place);
  if (!stable.is_object() || !stable.contains("cases")) return stable;
  for (auto& result : stable["cases"]) {
    if (auto* failures = find(result, "failures")) {
      std::ranges::stable_sort(failures->get_ref<ordered_json::array_t&>(), {},
                               [](const ordered_json& failure) { return failure.at("rank").get<int>(); });
    }
    const auto* world = find(result, "world");
    auto* measurements = find(result, "measurements");
    if (!world || !measurements) continue;
    const auto device = stable.at("worlds").at(world->get<std::size_t>()).at("device").get<std::string>();
    for (auto it = measurements->begin(); it != measurements->end();) {
      it = is_exact(device, it->at("unit").get<std::string>()) ? std::next(it) : measurements->erase(it);
    }
  }
  return stable;
}

}  // namespace shardproof::reports

#include <fmt/format.h>
#include <algorithm>
#include <istream>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>

#include "harness/base/json_fields.hpp"
#include "harness/base/json_parse.hpp"
#include "reports/model/case_json.hpp"
#include "reports/model/findings.hpp"
#include "reports/model/report.hpp"
#include "reports/model/waivers.hpp"

namespace shardproof::reports {

using base::Fields;

using nlohmann::ordered_json;

namespace {

/// Runs `read`, and puts the place before the text of its errors.
template <class Read>
void within(const std::string& place, const Read& read) {
  try {
    read();
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(place + ": " + error.what());
  }
}

ordered_json json_of(const WorldResult& world) {
  ordered_json json{{"fabric", world.fabric}, {"device", world.device}, {"ranks", world.size}};
  if (!world.environment.empty()) json["environment"] = world.environment;
  if (!world.unfit_for_timing.empty()) json["unfit_for_timing"] = world.unfit_for_timing;
  if (world.times != protocol::event_times) json["times"] = world.times;
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
      world.environment.push_back(base::read_text_map(variables, fields.where("environment")));
  }
  if (fields.has("unfit_for_timing")) world.unfit_for_timing = fields.text("unfit_for_timing");
  if (fields.has("times")) world.times = fields.text("times");
  world.endings = fields.list<protocol::Ending>("endings");
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
  const auto number = base::read_integer<int>(version, "report: \"schema_version\"");
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

}  // namespace

ordered_json summary_json(const Report& report) { return summary_of(report, report.flaky().size()); }

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
    for (std::size_t i = 0; i < size; ++i) out << (i == 0 ? "\n    " : ",\n    ") << base::dump_line(element(i));
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
      out << base::dump_line(value);
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
    json = base::parse_json(in, take);
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

}  // namespace shardproof::reports

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
#include "reports/model/consistency.hpp"
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

ordered_json hosts_of(const WorldResult& world) {
  ordered_json hosts = ordered_json::array();
  for (const PlacedHost& host : world.placement.hosts()) {
    const HostDetails& details = world.host_details.at(hosts.size());
    ordered_json& json = hosts.emplace_back(ordered_json{{"name", host.name}, {"id", host.id}, {"ranks", host.ranks}});
    if (!details.interfaces.empty()) json["interfaces"] = details.interfaces;
    if (!details.gpus.empty()) json["gpus"] = details.gpus;
  }
  return hosts;
}

void read_hosts(const Fields& fields, WorldResult& world) {
  std::vector<PlacedHost> hosts;
  for (const ordered_json& json : fields.array("hosts")) {
    const Fields host(json, "host");
    PlacedHost& placed = hosts.emplace_back(PlacedHost{.name = host.text("name"), .id = host.text("id"), .ranks = {}});
    for (const ordered_json& rank : host.array("ranks")) {
      placed.ranks.push_back(base::read_integer<int>(rank, host.where("ranks"), 0));
      if (placed.ranks.back() >= world.size)
        base::refuse(host.where("ranks"), fmt::format("ranks below {}", world.size), rank);
    }
    HostDetails& details = world.host_details.emplace_back();
    if (host.has("interfaces")) details.interfaces = host.texts("interfaces");
    if (!host.has("gpus")) continue;
    details.gpus = host.texts("gpus");
    if (details.gpus.size() != placed.ranks.size())
      base::refuse(host.where("gpus"), "a GPU for each rank of the host", json.at("gpus"));
  }
  world.placement = Placement(std::move(hosts));
}

ordered_json json_of(const WorldResult& world) {
  ordered_json json{{"fabric", world.fabric}, {"device", world.device}, {"ranks", world.size}};
  if (!world.placement.hosts().empty()) json["hosts"] = hosts_of(world);
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
  world.size = fields.integer<int>("ranks", 0);
  if (fields.has("hosts")) read_hosts(fields, world);
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

/// Returns the result of `parse`, which reads `in`, and gives its errors the texts of this reader.
template <class Parse>
ordered_json parsed(const std::istream& in, const Parse& parse) {
  try {
    return parse();
  } catch (const ordered_json::parse_error& error) {
    throw std::invalid_argument(
        fmt::format("report: invalid JSON at byte {}{}", error.byte, in.eof() ? ": is the file cut off?" : ""));
  } catch (const ordered_json::exception&) {
    throw std::invalid_argument("report: a number is out of range");
  }
}

/// Refuses derived fields that do not follow from the cases. A report of this schema version may lack fields that came
/// later.
void require_derived(const Report& report, const ordered_json& json) {
  const ordered_json derived = frame_of(report, report.flaky().size());
  const Fields summary(Fields(json, "report").object("summary"), "report: summary");
  for (const auto& [name, count] : derived.at("summary").items()) {
    if (!summary.has(name.c_str())) continue;
    const auto found = summary.integer<std::uint64_t>(name.c_str());
    if (found == count.get<std::uint64_t>()) continue;
    throw std::invalid_argument(fmt::format("{} is {}, but the cases add up to {}", summary.where(name.c_str()), found,
                                            count.get<std::uint64_t>()));
  }
  for (const char* name : {"skips", "requirements", "waivers"}) {
    if (!json.contains(name)) continue;
    const std::size_t found = Fields(json, "report").array(name).size(), expected = derived.at(name).size();
    if (found == expected) continue;
    throw std::invalid_argument(
        fmt::format("report: \"{}\": expected {} of them, which the cases and the run give, "
                    "found {}",
                    name, expected, found));
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
  require_consistent(report);
  require_derived(report, json);
  return report;
}

ordered_json read_report_document(std::istream& in) {
  ordered_json json = parsed(in, [&in] { return base::parse_json(in); });
  from_json(json);
  return json;
}

Report read_report(std::istream& in) {
  // Each case is read and dropped as soon as it is complete: most of the report of many ranks is cases.
  std::vector<CaseResult> cases;
  const auto take = [&cases](const ordered_json& document, const ordered_json& element) {
    if (const auto version = document.find("schema_version"); version != document.end()) check_version(*version);
    within(fmt::format("cases[{}]", cases.size()), [&] { cases.push_back(read_case(element)); });
  };
  const ordered_json json = parsed(in, [&] { return base::parse_json(in, "cases", take); });
  auto report = read_frame(json);
  Fields(json, "report").array("cases");
  report.cases = std::move(cases);
  require_consistent(report);
  require_derived(report, json);
  return report;
}

}  // namespace shardproof::reports

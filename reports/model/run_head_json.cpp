#include <fmt/format.h>

#include <optional>
#include <string>

#include "harness/base/json_fields.hpp"
#include "reports/model/report.hpp"
#include "reports/model/text_or_null.hpp"

namespace shardproof::reports {

using base::Fields;

using nlohmann::ordered_json;

namespace {

std::string read_text_or_null(const Fields& fields, const char* name) {
  const auto& value = fields.at(name, "a text or null");
  return value.is_null() ? std::string() : base::read_text(value, fields.where(name));
}

ordered_json number_or_null(const std::optional<std::size_t>& number) {
  return number ? ordered_json(*number) : ordered_json(nullptr);
}

std::optional<std::size_t> read_number_or_null(const Fields& fields, const char* name) {
  const auto& value = fields.at(name, "a number or null");
  return value.is_null() ? std::nullopt : std::optional(base::read_integer<std::size_t>(value, fields.where(name)));
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
  head.machine = base::read_text_map(texts, "report: \"machine\"");
  const Fields fields(json, "report: machine");
  if (fields.has("gpus")) head.gpus = fields.list<protocol::GpuInfo>("gpus");
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
  head.repeat = run.integer<int>("repeat", 1);
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

}  // namespace shardproof::reports

#include "harness/protocol/world_plan.hpp"

#include <fmt/format.h>

#include "harness/base/json_fields.hpp"
#include "harness/protocol/case_info.hpp"

namespace shardproof::protocol {

using base::refuse;

std::string play_case_id(int world_size, std::optional<std::size_t> number) {
  std::map<std::string, std::string> params{{"W", std::to_string(world_size)}};
  if (number) params["n"] = std::to_string(*number);
  return case_id("play/scenario", params);
}

std::vector<std::string> play_case_ids(const WorldPlan& plan) {
  if (plan.scenarios.size() == 1) return {play_case_id(plan.size)};
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < plan.scenarios.size(); ++i) ids.push_back(play_case_id(plan.size, i));
  return ids;
}

std::chrono::milliseconds WorldPlan::time_for(std::uint64_t position) const {
  const auto own = position < cases.size() ? timeouts.find(cases[position]) : timeouts.end();
  return own == timeouts.end() ? case_timeout : own->second;
}

std::string_view to_string(Scheduler scheduler) { return scheduler == Scheduler::free ? "free" : "seeded"; }

std::string fail_fast_reason(std::string_view id) { return fmt::format("{} did not pass (--fail-fast)", id); }

void to_json(nlohmann::ordered_json& json, const WorldPlan& plan) {
  json = nlohmann::ordered_json{{"size", plan.size},
                                {"nonce", plan.nonce},
                                {"rendezvous", plan.rendezvous.string()},
                                {"directory", plan.directory.string()},
                                {"fabric", plan.fabric},
                                {"device", plan.device},
                                {"subject", plan.subject},
                                {"fault", plan.fault},
                                {"seed", plan.seed},
                                {"cases", plan.cases},
                                {"case_timeout_ms", plan.case_timeout.count()},
                                {"trace", plan.trace}};
  if (!plan.subject_library.empty()) json["subject_library"] = plan.subject_library.string();
  if (plan.fail_fast)
    json["fail_fast"] = {{"may_fail", plan.fail_fast->may_fail}, {"may_have_error", plan.fail_fast->may_have_error}};
  if (plan.planned >= 0) json["planned"] = plan.planned;
  if (plan.continues) json["continues"] = {{"world", plan.continues->world}, {"from", plan.continues->from}};
  if (plan.attempt > 0) json["attempt"] = plan.attempt;
  if (plan.ranks_per_core > 1) json["ranks_per_core"] = plan.ranks_per_core;
  if (plan.on_disk) json["on_disk"] = true;
  if (!plan.timeouts.empty()) {
    nlohmann::ordered_json& timeouts = json["timeouts_ms"] = nlohmann::ordered_json::object();
    for (const auto& [id, time] : plan.timeouts) timeouts[id] = time.count();
  }
  if (!plan.environment.empty()) json["environment"] = plan.environment;
  if (!plan.unfit_for_timing.empty()) json["unfit_for_timing"] = plan.unfit_for_timing;
  if (!plan.skipped.empty()) json["skipped"] = plan.skipped;
  if (!plan.store.empty()) json["store"] = plan.store.string();
  if (!plan.backend.empty()) json["backend"] = plan.backend.string();
  if (!plan.mpi_modules.empty()) json["mpi_modules"] = plan.mpi_modules.string();
  if (plan.times != event_times) json["times"] = plan.times;
  if (plan.fabric == thread_fabric) json["scheduler"] = to_string(plan.scheduler);
  for (const std::filesystem::path& scenario : plan.scenarios) json["scenarios"].push_back(scenario.string());
  for (const std::filesystem::path& scenario : plan.given) json["given"].push_back(scenario.string());
}

void from_json(const nlohmann::ordered_json& json, WorldPlan& plan) {
  const base::Fields fields(json, "world plan");
  plan.size = fields.integer<int>("size");
  if (plan.size < 1) refuse(fields.where("size"), "at least 1", json["size"]);
  plan.nonce = fields.text("nonce");
  plan.rendezvous = fields.text("rendezvous");
  plan.directory = fields.text("directory");
  plan.fabric = fields.text("fabric");
  plan.device = fields.text("device");
  plan.subject = fields.text("subject");
  plan.fault = fields.text("fault");
  plan.seed = fields.integer<std::uint64_t>("seed");
  plan.cases = fields.texts("cases");
  const auto read_time = [&](const nlohmann::ordered_json& time, const char* field) {
    const auto milliseconds = base::read_integer<std::int64_t>(time, fields.where(field));
    if (milliseconds < 1) refuse(fields.where(field), "at least 1", time);
    return std::chrono::milliseconds(milliseconds);
  };
  plan.case_timeout = read_time(fields.at("case_timeout_ms", "an integer"), "case_timeout_ms");
  if (fields.has("timeouts_ms")) {
    for (const auto& [id, time] : fields.object("timeouts_ms").items())
      plan.timeouts[id] = read_time(time, "timeouts_ms");
  }
  plan.trace = fields.boolean("trace");
  if (fields.has("subject_library")) plan.subject_library = fields.text("subject_library");
  if (fields.has("fail_fast")) {
    const base::Fields fail_fast(fields.object("fail_fast"), "world plan: \"fail_fast\"");
    plan.fail_fast = {.may_fail = fail_fast.texts("may_fail"), .may_have_error = fail_fast.texts("may_have_error")};
  }
  if (fields.has("planned")) plan.planned = fields.integer<int>("planned");
  if (fields.has("continues")) {
    const base::Fields continues(fields.object("continues"), "world plan: \"continues\"");
    plan.continues = {.world = continues.integer<int>("world"), .from = continues.integer<std::uint64_t>("from")};
  }
  if (fields.has("attempt")) plan.attempt = fields.integer<int>("attempt");
  if (fields.has("ranks_per_core")) plan.ranks_per_core = fields.integer<int>("ranks_per_core");
  if (fields.has("on_disk")) plan.on_disk = fields.boolean("on_disk");
  if (fields.has("environment")) {
    for (const auto& variables : fields.array("environment"))
      plan.environment.push_back(base::read_text_map(variables, fields.where("environment")));
  }
  if (fields.has("unfit_for_timing")) plan.unfit_for_timing = fields.text("unfit_for_timing");
  if (fields.has("skipped")) plan.skipped = fields.text("skipped");
  if (fields.has("store")) plan.store = fields.text("store");
  if (fields.has("backend")) plan.backend = fields.text("backend");
  if (fields.has("mpi_modules")) plan.mpi_modules = fields.text("mpi_modules");
  if (fields.has("times")) plan.times = fields.text("times");
  if (plan.times != event_times && plan.times != cupti_times)
    refuse(fields.where("times"), fmt::format("{} or {}", event_times, cupti_times), json["times"]);
  if (fields.has("scheduler")) plan.scheduler = base::read_enum(fields, "scheduler", Scheduler::free);
  if (fields.has("scenarios")) {
    for (const std::string& scenario : fields.texts("scenarios")) plan.scenarios.emplace_back(scenario);
  }
  if (fields.has("given")) {
    for (const std::string& scenario : fields.texts("given")) plan.given.emplace_back(scenario);
    if (plan.given.size() != plan.cases.size())
      refuse(fields.where("given"), "a document for each of the cases", json["given"]);
  }
}

}  // namespace shardproof::protocol

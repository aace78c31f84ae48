#include "harness/protocol/world_plan.hpp"

#include "harness/protocol/json_fields.hpp"

namespace shardproof {

std::string play_case_id(int world_size) { return fmt::format("play/scenario[W={}]", world_size); }

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
  if (plan.planned >= 0) json["planned"] = plan.planned;
  if (plan.continues) json["continues"] = {{"world", plan.continues->world}, {"from", plan.continues->from}};
  if (plan.attempt > 0) json["attempt"] = plan.attempt;
  if (!plan.scenario.empty()) json["scenario"] = plan.scenario.string();
}

void from_json(const nlohmann::ordered_json& json, WorldPlan& plan) {
  const Fields fields(json, "world plan");
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
  const auto timeout = fields.integer<std::int64_t>("case_timeout_ms");
  if (timeout < 1) refuse(fields.where("case_timeout_ms"), "at least 1", json["case_timeout_ms"]);
  plan.case_timeout = std::chrono::milliseconds(timeout);
  plan.trace = fields.boolean("trace");
  if (fields.has("planned")) plan.planned = fields.integer<int>("planned");
  if (fields.has("continues")) {
    const Fields continues(fields.object("continues"), "world plan: \"continues\"");
    plan.continues = {.world = continues.integer<int>("world"), .from = continues.integer<std::uint64_t>("from")};
  }
  if (fields.has("attempt")) plan.attempt = fields.integer<int>("attempt");
  if (fields.has("scenario")) plan.scenario = fields.text("scenario");
}

}  // namespace shardproof

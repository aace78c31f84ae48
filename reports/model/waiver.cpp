#include "reports/model/waiver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "harness/base/json_fields.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/protocol/world_plan.hpp"

namespace shardproof::reports {

using base::Fields;
using base::refuse;

using nlohmann::ordered_json;

namespace {

const std::string& nonempty(const Fields& fields, const char* name) {
  const std::string& text = fields.text(name);
  if (text.empty())
    throw std::invalid_argument(fmt::format("{}: expected a text that is not empty", fields.where(name)));
  return text;
}

std::optional<std::string> text_if_given(const Fields& fields, const char* name) {
  return fields.has(name) ? std::optional(nonempty(fields, name)) : std::nullopt;
}

std::optional<int> ranks_if_given(const Fields& fields, const char* name, const ordered_json& json) {
  if (!fields.has(name)) return std::nullopt;
  const int ranks = fields.integer<int>(name);
  if (ranks < 1) refuse(fields.where(name), "at least 1", json[name]);
  return ranks;
}

Waiver::When read_when(const ordered_json& json, const std::string& place) {
  const Fields fields(json, place);
  fields.expect_only({"fabric", "device", "subject", "fault", "world_size"});
  return {.fabric = text_if_given(fields, "fabric"),
          .device = text_if_given(fields, "device"),
          .subject = text_if_given(fields, "subject"),
          .fault = text_if_given(fields, "fault"),
          .world_size = ranks_if_given(fields, "world_size", json)};
}

Waiver::Demonstration read_demonstration(const ordered_json& json, const std::string& place) {
  const Fields fields(json, place);
  fields.expect_only({"scenario", "ranks", "beside"});
  return {.scenario = nonempty(fields, "scenario"),
          .ranks = ranks_if_given(fields, "ranks", json),
          .other_subject = text_if_given(fields, "beside")};
}

ordered_json json_of(const Waiver::Demonstration& demonstration) {
  ordered_json json{{"scenario", demonstration.scenario}};
  if (demonstration.ranks) json["ranks"] = *demonstration.ranks;
  if (demonstration.other_subject) json["beside"] = *demonstration.other_subject;
  return json;
}

ordered_json json_of(const Waiver::When& when) {
  ordered_json json = ordered_json::object();
  if (when.fabric) json["fabric"] = *when.fabric;
  if (when.device) json["device"] = *when.device;
  if (when.subject) json["subject"] = *when.subject;
  if (when.fault) json["fault"] = *when.fault;
  if (when.world_size) json["world_size"] = *when.world_size;
  return json;
}

ordered_json parse(std::string_view text) {
  try {
    return base::parse_json(text);
  } catch (const ordered_json::parse_error& error) {
    throw std::invalid_argument(fmt::format("invalid JSON at {}", base::syntax_error_text(error)));
  } catch (const base::DuplicateKey& error) {
    throw std::invalid_argument(fmt::format("{}: remove one of the two", error.what()));
  } catch (const ordered_json::exception&) {
    throw std::invalid_argument("a number is out of range");
  }
}

}  // namespace

bool is_waivable(Verdict verdict) {
  return verdict == Verdict::failed || verdict == Verdict::error || verdict == Verdict::hung ||
         verdict == Verdict::crashed;
}

bool is_day(std::string_view text) {
  constexpr std::string_view form = "dddd-dd-dd";
  const auto fits = [](char c, char wanted) { return wanted == 'd' ? c >= '0' && c <= '9' : c == wanted; };
  if (!std::ranges::equal(text, form, fits)) return false;
  const auto number = [&](std::size_t begin, std::size_t length) {
    unsigned value = 0;
    std::from_chars(text.data() + begin, text.data() + begin + length, value);
    return value;
  };
  using namespace std::chrono;
  return year_month_day(year(static_cast<int>(number(0, 4))), month(number(5, 2)), day(number(8, 2))).ok();
}

std::vector<Waiver> parse_waivers(std::string_view text) {
  const ordered_json json = parse(text);
  const Fields document(json, "waivers");
  document.expect_only({"$schema", "version", "waivers"});
  if (document.has("version") && document.integer<int>("version") != waivers_version)
    refuse(document.where("version"), fmt::format("{}, the version that this shardproof reads", waivers_version),
           json["version"]);
  std::vector<Waiver> waivers;
  for (const auto& element : document.array("waivers")) {
    const std::string place = fmt::format("waivers[{}]", waivers.size());
    Fields(element, place)
        .expect_only({"pattern", "verdict", "when", "reason", "link", "owner", "expires", "shown_by"});
    waivers.push_back(read_waiver(element, place));
    const auto& device = waivers.back().when.device;
    if (device && *device != protocol::sim_device && *device != protocol::cuda_device)
      throw std::invalid_argument(fmt::format("{}: when: \"device\": expected \"{}\" or \"{}\", found \"{}\"", place,
                                              protocol::sim_device, protocol::cuda_device, *device));
  }
  return waivers;
}

void to_json(ordered_json& json, const Waiver& waiver) {
  json = ordered_json{{"pattern", waiver.pattern},    {"verdict", to_string(waiver.verdict)},
                      {"when", json_of(waiver.when)}, {"reason", waiver.reason},
                      {"link", waiver.link},          {"owner", waiver.owner},
                      {"expires", waiver.expires}};
  if (waiver.shown_by) json["shown_by"] = json_of(*waiver.shown_by);
}

Waiver read_waiver(const ordered_json& json, std::string_view place) {
  const Fields fields(json, place);
  Waiver waiver;
  waiver.pattern = nonempty(fields, "pattern");
  const auto verdict = verdict_from_string(fields.text("verdict"));
  if (!verdict || !is_waivable(*verdict))
    refuse(fields.where("verdict"), "failed, error, hung or crashed", json["verdict"]);
  waiver.verdict = *verdict;
  if (fields.has("when")) waiver.when = read_when(fields.object("when"), fmt::format("{}: when", place));
  waiver.reason = nonempty(fields, "reason");
  waiver.link = nonempty(fields, "link");
  waiver.owner = nonempty(fields, "owner");
  waiver.expires = fields.text("expires");
  if (!is_day(waiver.expires)) refuse(fields.where("expires"), "a day such as 2030-12-31", json["expires"]);
  if (fields.has("shown_by"))
    waiver.shown_by = read_demonstration(fields.object("shown_by"), fmt::format("{}: shown_by", place));
  return waiver;
}

}  // namespace shardproof::reports

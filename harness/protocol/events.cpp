#include "harness/protocol/events.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "harness/protocol/json_fields.hpp"

namespace shardproof {

using nlohmann::ordered_json;

namespace {

constexpr std::array<std::pair<Outcome, std::string_view>, 8> outcomes{{{Outcome::passed, "passed"},
                                                                        {Outcome::failed, "failed"},
                                                                        {Outcome::error, "error"},
                                                                        {Outcome::released, "released"},
                                                                        {Outcome::skipped, "skipped"},
                                                                        {Outcome::hung, "hung"},
                                                                        {Outcome::crashed, "crashed"},
                                                                        {Outcome::missing, "missing"}}};

/// Cuts between characters, not within one.
std::string cut(const std::string& text) {
  if (text.size() <= event::text_limit) return text;
  std::size_t end = event::text_limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + fmt::format("… ({} bytes more)", text.size() - end);
}

std::vector<std::string> cut(const std::vector<std::string>& texts) {
  std::vector<std::string> kept;
  const std::size_t count = std::min(texts.size(), event::messages_limit);
  kept.reserve(count + 1);
  for (std::size_t i = 0; i < count; ++i) kept.push_back(cut(texts[i]));
  if (count < texts.size()) kept.push_back(fmt::format("({} messages more)", texts.size() - count));
  return kept;
}

ordered_json json_of(const event::RankStarted& e) {
  return {{"event", "rank_started"}, {"rank", e.rank},   {"world_size", e.world_size},       {"pid", e.pid},     {"host", e.host},
          {"nonce", e.nonce},        {"suite_version", e.suite_version}, {"build", e.build}, {"protocol", e.protocol}};
}

ordered_json json_of(const event::CaseStarted& e) {
  return {{"event", "case_started"}, {"id", e.id}, {"position", e.position}, {"monotonic_ns", e.monotonic_ns}};
}

ordered_json json_of(const event::AssertionFailed& e) {
  return {{"event", "assertion_failed"},
          {"file", cut(e.file)},
          {"line", e.line},
          {"macro", cut(e.macro)},
          {"expression", cut(e.expression)},
          {"expansion", cut(e.expansion)},
          {"messages", cut(e.messages)},
          {"clauses", e.clauses},
          {"monotonic_ns", e.monotonic_ns}};
}

ordered_json json_of(const event::Measured& e) { return {{"event", "measured"}, {"name", e.name}, {"value", e.value}, {"unit", e.unit}}; }

ordered_json json_of(const event::CaseEnded& e) {
  return {{"event", "case_ended"},        {"id", e.id},
          {"position", e.position},       {"outcome", to_string(e.outcome)},
          {"assertions", e.assertions},   {"reason", cut(e.reason)},
          {"culprit", e.culprit},         {"duration_ns", e.duration_ns}};
}

ordered_json json_of(const event::RankEnded& e) { return {{"event", "rank_ended"}, {"rank", e.rank}}; }

event::RankStarted rank_started(const Fields& fields) {
  return {.rank = fields.integer<int>("rank"),
          .world_size = fields.integer<int>("world_size"),
          .pid = fields.integer<std::int64_t>("pid"),
          .host = fields.text("host"),
          .nonce = fields.text("nonce"),
          .suite_version = fields.text("suite_version"),
          .build = fields.text("build"),
          .protocol = fields.integer<int>("protocol")};
}

event::CaseStarted case_started(const Fields& fields) {
  return {.id = fields.text("id"),
          .position = fields.integer<std::uint64_t>("position"),
          .monotonic_ns = fields.integer<std::int64_t>("monotonic_ns")};
}

event::AssertionFailed assertion_failed(const Fields& fields) {
  return {.file = fields.text("file"),
          .line = fields.integer<int>("line"),
          .macro = fields.text("macro"),
          .expression = fields.text("expression"),
          .expansion = fields.text("expansion"),
          .messages = fields.texts("messages"),
          .clauses = fields.texts("clauses"),
          .monotonic_ns = fields.integer<std::int64_t>("monotonic_ns")};
}

event::Measured measured(const Fields& fields) {
  return {.name = fields.text("name"), .value = fields.number("value"), .unit = fields.text("unit")};
}

event::CaseEnded case_ended(const Fields& fields) {
  const auto& word = fields.text("outcome");
  const auto outcome = outcome_from_string(word);
  // A rank cannot know these of itself: a line that claims one was not written by a rank.
  if (!outcome || *outcome == Outcome::hung || *outcome == Outcome::crashed || *outcome == Outcome::missing) {
    refuse(fields.where("outcome"), "passed, failed, error, released or skipped", word);
  }
  return {.id = fields.text("id"),
          .position = fields.integer<std::uint64_t>("position"),
          .outcome = *outcome,
          .assertions = fields.integer<std::uint64_t>("assertions"),
          .reason = fields.text("reason"),
          .culprit = fields.integer<int>("culprit"),
          .duration_ns = fields.integer<std::int64_t>("duration_ns")};
}

}  // namespace

std::string_view to_string(Outcome outcome) {
  for (const auto& [value, name] : outcomes) {
    if (value == outcome) return name;
  }
  return "unknown";
}

std::optional<Outcome> outcome_from_string(std::string_view text) {
  for (const auto& [value, name] : outcomes) {
    if (name == text) return value;
  }
  return std::nullopt;
}

std::string to_line(const Event& event) {
  return dump_line(std::visit([](const auto& e) { return json_of(e); }, event));
}

Event parse_line(std::string_view line) {
  ordered_json json;
  try {
    json = ordered_json::parse(line);
  } catch (const ordered_json::parse_error& error) {
    throw std::invalid_argument(fmt::format("event line: no JSON at byte {}", error.byte));
  } catch (const ordered_json::exception&) {
    throw std::invalid_argument("event line: a number is out of range");
  }
  const Fields outer(json, "event line");
  const auto& name = outer.text("event");
  const Fields fields(json, name);
  if (name == "rank_started") return rank_started(fields);
  if (name == "case_started") return case_started(fields);
  if (name == "assertion_failed") return assertion_failed(fields);
  if (name == "measured") return measured(fields);
  if (name == "case_ended") return case_ended(fields);
  if (name == "rank_ended") return event::RankEnded{.rank = fields.integer<int>("rank")};
  refuse("event line: \"event\"", "rank_started, case_started, assertion_failed, measured, case_ended or rank_ended", name);
}

}  // namespace shardproof

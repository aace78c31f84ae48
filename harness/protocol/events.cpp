#include "harness/protocol/events.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <optional>
#include <utility>

#include "harness/base/json_fields.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/base/utf8.hpp"

namespace shardproof::protocol {

using base::Fields;

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

/// A rank cannot know that it hung, crashed or is missing. So no rank wrote a line that claims it.
bool is_own_word(Outcome outcome) {
  return outcome != Outcome::hung && outcome != Outcome::crashed && outcome != Outcome::missing;
}

std::string cut(const std::string& text) {
  if (text.size() <= event::text_limit) return text;
  const auto kept = base::beginning_within(text, event::text_limit);
  return fmt::format("{}… ({} bytes more)", kept, text.size() - kept.size());
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
  ordered_json json{
      {"event", "rank_started"}, {"rank", e.rank},   {"world_size", e.world_size},       {"pid", e.pid},
      {"host", e.host},          {"nonce", e.nonce}, {"suite_version", e.suite_version}, {"build", e.build},
      {"protocol", e.protocol}};
  if (!e.host_id.empty()) json["host_id"] = e.host_id;
  if (!e.gpu.empty()) json["gpu"] = e.gpu;
  if (!e.interfaces.empty()) json["interfaces"] = e.interfaces;
  if (e.clocks) json["clocks"] = {{"monotonic_ns", e.clocks->monotonic_ns}, {"realtime_ns", e.clocks->realtime_ns}};
  return json;
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

ordered_json json_of(const event::Measured& e) {
  return {{"event", "measured"}, {"name", e.name}, {"value", e.value}, {"unit", e.unit}};
}

ordered_json json_of(const event::CaseEnded& e) {
  ordered_json json{{"event", "case_ended"},      {"id", e.id},
                    {"position", e.position},     {"outcome", to_string(e.outcome)},
                    {"assertions", e.assertions}, {"reason", cut(e.reason)},
                    {"culprit", e.culprit},       {"duration_ns", e.duration_ns}};
  if (e.unclaimed) json["unclaimed"] = true;
  if (!e.combined.empty()) json["combined"] = e.combined;
  return json;
}

ordered_json json_of(const event::RankEnded& e) {
  ordered_json json{{"event", "rank_ended"}, {"rank", e.rank}};
  if (!e.cut_short.empty()) json["cut_short"] = cut(e.cut_short);
  if (e.is_by_case) json["by_case"] = true;
  return json;
}

ClockPair clock_pair(const nlohmann::ordered_json& json) {
  const Fields fields(json, "rank_started: \"clocks\"");
  return {.monotonic_ns = fields.integer<std::int64_t>("monotonic_ns", 0),
          .realtime_ns = fields.integer<std::int64_t>("realtime_ns", 0)};
}

event::RankStarted rank_started(const Fields& fields) {
  return {.rank = fields.integer<int>("rank", 0),
          .world_size = fields.integer<int>("world_size", 1),
          .pid = fields.integer<std::int64_t>("pid"),
          .host = fields.text("host"),
          .nonce = fields.text("nonce"),
          .suite_version = fields.text("suite_version"),
          .build = fields.text("build"),
          .protocol = fields.integer<int>("protocol"),
          .host_id = fields.has("host_id") ? fields.text("host_id") : std::string(),
          .gpu = fields.has("gpu") ? fields.text("gpu") : std::string(),
          .interfaces = fields.has("interfaces") ? fields.texts("interfaces") : std::vector<std::string>(),
          .clocks = fields.has("clocks") ? std::optional(clock_pair(fields.object("clocks"))) : std::nullopt};
}

event::CaseStarted case_started(const Fields& fields) {
  return {.id = fields.text("id"),
          .position = fields.integer<std::uint64_t>("position"),
          .monotonic_ns = fields.integer<std::int64_t>("monotonic_ns", 0)};
}

event::AssertionFailed assertion_failed(const Fields& fields) {
  return {.file = fields.text("file"),
          .line = fields.integer<int>("line", 0),
          .macro = fields.text("macro"),
          .expression = fields.text("expression"),
          .expansion = fields.text("expansion"),
          .messages = fields.texts("messages"),
          .clauses = fields.texts("clauses"),
          .monotonic_ns = fields.integer<std::int64_t>("monotonic_ns", 0)};
}

event::Measured measured(const Fields& fields) {
  return {.name = fields.text("name"), .value = fields.number("value"), .unit = fields.text("unit")};
}

event::CaseEnded case_ended(const Fields& fields) {
  const auto& word = fields.text("outcome");
  const auto outcome = outcome_from_string(word);
  if (!outcome || !is_own_word(*outcome))
    base::refuse(fields.where("outcome"), "passed, failed, error, released or skipped", word);
  return {.id = fields.text("id"),
          .position = fields.integer<std::uint64_t>("position"),
          .outcome = *outcome,
          .assertions = fields.integer<std::uint64_t>("assertions"),
          .reason = fields.text("reason"),
          .culprit = fields.integer<int>("culprit", -1),
          .duration_ns = fields.integer<std::int64_t>("duration_ns", 0),
          .unclaimed = fields.has("unclaimed") && fields.boolean("unclaimed"),
          .combined = fields.has("combined") ? fields.texts("combined") : std::vector<std::string>()};
}

event::RankEnded rank_ended(const Fields& fields) {
  return {.rank = fields.integer<int>("rank", 0),
          .cut_short = fields.has("cut_short") ? fields.text("cut_short") : std::string(),
          .is_by_case = fields.has("by_case") && fields.boolean("by_case")};
}

/// Reads the lines that every case has, in exactly the form that `to_line` writes. A merge of a thousand ranks reads
/// millions of these lines, and the JSON library would take most of the merge's time for them. Lines of another form,
/// and errors, are left to that library.
class WrittenForm {
 public:
  explicit WrittenForm(std::string_view line) : rest_(line) {}

  std::optional<RankEvent> event() {
    if (literal(R"({"event":"case_)")) {
      if (literal(R"(started",)")) return case_started();
      if (literal(R"(ended",)")) return case_ended();
    } else if (literal(R"({"event":"measured",)")) {
      return measured();
    }
    return std::nullopt;
  }

 private:
  std::optional<RankEvent> case_started() {
    event::CaseStarted e;
    const bool read = literal(R"("id":)") && text(e.id) && literal(R"(,"position":)") && integer(e.position) &&
                      literal(R"(,"monotonic_ns":)") && integer(e.monotonic_ns) && e.monotonic_ns >= 0 && end();
    return read ? std::optional<RankEvent>(std::move(e)) : std::nullopt;
  }

  std::optional<RankEvent> case_ended() {
    event::CaseEnded e;
    std::string word;
    const bool read = literal(R"("id":)") && text(e.id) && literal(R"(,"position":)") && integer(e.position) &&
                      literal(R"(,"outcome":)") && text(word) && literal(R"(,"assertions":)") &&
                      integer(e.assertions) && literal(R"(,"reason":)") && text(e.reason) &&
                      literal(R"(,"culprit":)") && integer(e.culprit) && literal(R"(,"duration_ns":)") &&
                      integer(e.duration_ns) && e.culprit >= -1 && e.duration_ns >= 0 && end();
    const auto outcome = outcome_from_string(word);
    if (!read || !outcome || !is_own_word(*outcome)) return std::nullopt;
    e.outcome = *outcome;
    return e;
  }

  std::optional<RankEvent> measured() {
    event::Measured e;
    const bool read = literal(R"("name":)") && text(e.name) && literal(R"(,"value":)") && number(e.value) &&
                      literal(R"(,"unit":)") && text(e.unit) && end();
    return read ? std::optional<RankEvent>(std::move(e)) : std::nullopt;
  }

  bool literal(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  bool end() const { return rest_ == "}"; }

  /// Reads plain ASCII without escapes.
  bool text(std::string& value) {
    if (!literal("\"")) return false;
    std::size_t length = 0;
    for (; length < rest_.size() && rest_[length] != '"'; ++length) {
      const auto byte = static_cast<unsigned char>(rest_[length]);
      if (byte < 0x20 || byte >= 0x80 || byte == '\\') return false;
    }
    if (length == rest_.size()) return false;
    value.assign(rest_.substr(0, length));
    rest_.remove_prefix(length + 1);
    return true;
  }

  /// Finds the end of the digits at `from`. JSON allows no leading zero before other digits. Returns `from` if there
  /// are no digits.
  std::size_t digits(std::size_t from) const {
    std::size_t to = from;
    while (to < rest_.size() && rest_[to] >= '0' && rest_[to] <= '9') ++to;
    return to;
  }

  std::size_t whole_part() const {
    const std::size_t begin = rest_.starts_with('-') ? 1 : 0;
    const auto end = digits(begin);
    return end == begin || (rest_[begin] == '0' && end > begin + 1) ? 0 : end;
  }

  template <class T>
  bool convert(std::size_t length, T& value) {
    const auto* last = rest_.data() + length;
    const auto [end, error] = std::from_chars(rest_.data(), last, value);
    if (length == 0 || error != std::errc() || end != last) return false;
    rest_.remove_prefix(length);
    return true;
  }

  template <std::integral T>
  bool integer(T& value) {
    return convert(whole_part(), value);
  }

  bool number(double& value) {
    auto length = whole_part();
    if (length == 0) return false;
    if (length < rest_.size() && rest_[length] == '.') {
      const auto fraction = digits(length + 1);
      if (fraction == length + 1) return false;
      length = fraction;
    }
    if (length < rest_.size() && (rest_[length] == 'e' || rest_[length] == 'E')) {
      const auto sign = length + 1;
      const std::size_t first = sign < rest_.size() && (rest_[sign] == '+' || rest_[sign] == '-') ? sign + 1 : sign;
      const auto exponent = digits(first);
      if (exponent == first) return false;
      length = exponent;
    }
    // A measurement is written with a point or an exponent. Without them the library reads an integer, which has no
    // negative zero.
    if (length == whole_part()) return false;
    return convert(length, value);
  }

  std::string_view rest_;
};

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

std::string to_line(const RankEvent& event) {
  return base::dump_line(std::visit([](const auto& e) { return json_of(e); }, event));
}

RankEvent parse_line(std::string_view line) {
  if (auto event = WrittenForm(line).event()) return std::move(*event);
  ordered_json json;
  try {
    json = base::parse_json(line);
  } catch (const ordered_json::parse_error& error) {
    throw std::invalid_argument(fmt::format("event line: invalid JSON at byte {}", error.byte));
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
  if (name == "rank_ended") return rank_ended(fields);
  base::refuse("event line: \"event\"",
               "rank_started, case_started, assertion_failed, measured, case_ended or rank_ended", name);
}

}  // namespace shardproof::protocol

#include "harness/protocol/ending.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "harness/base/json_fields.hpp"

namespace shardproof::protocol {

namespace {

using How = Ending::How;

constexpr std::array<std::pair<How, std::string_view>, 7> way_names{{{How::exited, "exited"},
                                                                     {How::signalled, "signalled"},
                                                                     {How::overran, "overran"},
                                                                     {How::stopped, "stopped"},
                                                                     {How::interrupted, "interrupted"},
                                                                     {How::not_started, "not_started"},
                                                                     {How::foreign, "foreign"}}};

}  // namespace

std::string_view to_string(How how) {
  for (const auto& [value, name] : way_names) {
    if (value == how) return name;
  }
  return "unknown";
}

std::string signal_text(int number) {
  const char* name = ::sigabbrev_np(number);
  return name == nullptr ? fmt::format("signal {}", number) : fmt::format("signal {} (SIG{})", number, name);
}

std::string signal_text(const Ending& ending) {
  std::string text = signal_text(ending.code);
  const std::string_view reason =
      ending.lacked_memory ? "from the kernel: memory ran out" : std::string_view(ending.reason);
  if (!reason.empty() && text.ends_with(')')) text.insert(text.size() - 1, fmt::format(", {}", reason));
  return text;
}

std::string_view hint_for_no_process(int error) {
  // The limit of a user (`ulimit -u`), of a cgroup, or of the machine. The kernel does not say which.
  return error == EAGAIN ? " (there may be no more processes: see `ulimit -u` and the cgroup's pids.max)" : "";
}

void to_json(nlohmann::ordered_json& json, const Ending& ending) {
  json = nlohmann::ordered_json{{"rank", ending.rank},
                                {"how", to_string(ending.how)},
                                {"code", ending.code},
                                {"position", ending.position},
                                {"text", ending.text}};
  if (ending.is_cause) json["is_cause"] = true;
  if (ending.lacked_memory) json["lacked_memory"] = true;
  if (!ending.reason.empty()) json["reason"] = ending.reason;
  if (!ending.last_words.empty()) json["last_words"] = ending.last_words;
}

void from_json(const nlohmann::ordered_json& json, Ending& ending) {
  const base::Fields fields(json, "ending");
  ending.rank = fields.integer<int>("rank");
  const auto& how = fields.text("how");
  const auto* found =
      std::find_if(way_names.begin(), way_names.end(), [&](const auto& entry) { return entry.second == how; });
  if (found == way_names.end())
    base::refuse(fields.where("how"), "exited, signalled, overran, stopped, interrupted, not_started or foreign",
                 json["how"]);
  ending.how = found->first;
  ending.code = fields.integer<int>("code");
  ending.position = fields.integer<std::int64_t>("position");
  ending.text = fields.text("text");
  if (fields.has("is_cause")) ending.is_cause = fields.boolean("is_cause");
  if (fields.has("lacked_memory")) ending.lacked_memory = fields.boolean("lacked_memory");
  if (fields.has("reason")) ending.reason = fields.text("reason");
  if (fields.has("last_words")) ending.last_words = fields.text("last_words");
}

}  // namespace shardproof::protocol

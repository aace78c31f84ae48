#include "launcher/run/guard_link.hpp"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <variant>

#include "harness/base/enum_names.hpp"
#include "harness/base/json_fields.hpp"
#include "harness/base/json_parse.hpp"
#include "harness/base/json_text.hpp"
#include "harness/base/utf8.hpp"
#include "harness/control/link/hub_search.hpp"
#include "harness/control/link/ready_set.hpp"

namespace shardproof::launcher {

using control::link::Note;

namespace {

/// Longer texts are cut.
constexpr std::size_t longest_text = 4096;

}  // namespace

std::string_view to_string(GuardReport::What what) {
  return base::name_of<GuardReport::What::leftover>(
      what, {"joined", "refused", "gpus", "ready", "started", "ended", "collected", "saved", "leftover"});
}

std::string_view to_string(GuardRequest::What what) {
  return base::name_of<GuardRequest::What::leave>(
      what, {"list_gpus", "lead", "start", "signal", "release", "collect", "leave"});
}

void to_json(nlohmann::ordered_json& json, const GuardReport& report) {
  json = nlohmann::ordered_json{{"what", to_string(report.what)},
                                {"rank", report.rank},
                                {"process", report.process},
                                {"text", base::beginning_within(report.text, longest_text)}};
  if (report.what == GuardReport::What::joined)
    json["host"] = {{"name", report.host.name}, {"boot", report.host.boot}, {"memory", report.host.memory}};
  if (report.end) json["end"] = *report.end;
  if (report.gpus) json["gpus"] = *report.gpus;
}

void from_json(const nlohmann::ordered_json& json, GuardReport& report) {
  const base::Fields fields(json, "report of a guard");
  report.what = base::read_enum(fields, "what", GuardReport::What::leftover);
  report.rank = fields.integer<int>("rank", -1);
  report.process = fields.integer<std::int64_t>("process", 0);
  report.text = fields.text("text");
  if (fields.has("host")) {
    const base::Fields host(fields.object("host"), "report of a guard: \"host\"");
    report.host = {.name = host.text("name"), .boot = host.text("boot"), .memory = host.text("memory")};
  }
  if (fields.has("end")) report.end = fields.object("end").get<protocol::RankEnd>();
  if (fields.has("gpus")) report.gpus = fields.object("gpus").get<protocol::GpuListing>();
}

void to_json(nlohmann::ordered_json& json, const GuardRequest& request) {
  json = nlohmann::ordered_json{{"what", to_string(request.what)},
                                {"signal", request.signal},
                                {"ranks", request.ranks},
                                {"rendezvous", request.rendezvous.string()},
                                {"text", base::beginning_within(request.text, longest_text)}};
  if (!request.variables.empty()) json["variables"] = request.variables;
}

void from_json(const nlohmann::ordered_json& json, GuardRequest& request) {
  const base::Fields fields(json, "request to a guard");
  request.what = base::read_enum(fields, "what", GuardRequest::What::leave);
  request.signal = fields.integer<int>("signal", 0);
  request.ranks = fields.array("ranks").get<std::vector<int>>();
  request.rendezvous = fields.text("rendezvous");
  request.text = fields.text("text");
  if (fields.has("variables")) request.variables = fields.text_map("variables");
}

GuardLink GuardLink::connect(std::string_view addresses, const std::string& key, std::chrono::nanoseconds limit) {
  control::link::ReadySet ready;
  control::link::HubSearch search(addresses, key, std::chrono::steady_clock::now() + limit, ready, 0);
  while (true) {
    const control::Deadline now = std::chrono::steady_clock::now();
    if (auto found = search.advance(now)) return GuardLink(std::move(*found));
    if (search.has_failed(now)) throw std::runtime_error(search.answers());
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(search.deadline() - now);
    pollfd descriptor{.fd = ready.descriptor(), .events = POLLIN, .revents = 0};
    ::poll(&descriptor, 1, static_cast<int>(std::max<std::int64_t>(0, left.count())));
  }
}

GuardLink::GuardLink(control::link::Acceptor::Arrival guest) : connection_(std::move(guest.connection)) {
  take({std::move(guest.first)});
}

void GuardLink::take(const std::vector<control::link::Message>& messages) {
  for (const control::link::Message& message : messages) {
    if (const auto* const note = std::get_if<Note>(&message)) received_.push_back(note->text);
  }
}

bool GuardLink::fits(const nlohmann::ordered_json& message) {
  return base::dump_line(message).size() <= control::link::longest_note;
}

void GuardLink::send(const nlohmann::ordered_json& message) noexcept {
  try {
    connection_.send(Note{base::dump_line(message)});
    connection_.flush();
  } catch (const std::exception&) {
    // Without memory, the message is lost.
  }
}

std::optional<nlohmann::ordered_json> GuardLink::receive() {
  if (received_.empty()) take(connection_.exchange());
  if (received_.empty()) return std::nullopt;
  const std::string text = std::move(received_.front());
  received_.pop_front();
  return base::parse_json(text);
}

}  // namespace shardproof::launcher

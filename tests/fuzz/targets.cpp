#include "tests/fuzz/targets.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/base/json_parse.hpp"
#include "harness/control/link/addresses.hpp"
#include "harness/control/link/message.hpp"
#include "harness/protocol/case_filter.hpp"
#include "harness/protocol/events.hpp"
#include "harness/protocol/flight_record.hpp"
#include "harness/protocol/gpu_listing.hpp"
#include "harness/protocol/nccl_faults.hpp"
#include "harness/protocol/nccl_record.hpp"
#include "harness/protocol/step_graph_json.hpp"
#include "harness/rendezvous/rendezvous_directory.hpp"
#include "harness/rendezvous/value_file.hpp"
#include "harness/scenario/scenario_json.hpp"
#include "harness/trace/nccl_listing.hpp"
#include "launcher/process/gpus.hpp"
#include "launcher/run/guard_link.hpp"
#include "reports/diff/diff.hpp"
#include "reports/explain/explanation.hpp"
#include "reports/explain/nccl_calls.hpp"
#include "reports/export/summary.hpp"
#include "reports/model/report.hpp"
#include "reports/model/waiver.hpp"
#include "reports/model/waivers.hpp"
#include "reports/play/step_graph_text.hpp"
#include "tests/reports/world_record.hpp"

namespace shardproof::fuzz {

namespace {

/// A fuzzer sees a broken property as a crash; what an assertion library does instead is no concern of its.
void require(bool holds, const char* property) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", property);
  std::abort();
}

std::optional<reports::Report> read(std::string_view input) {
  std::istringstream in{std::string(input)};
  try {
    return reports::read_report(in);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

std::string written(const reports::Report& report) {
  std::ostringstream out;
  reports::write_report(out, report);
  return out.str();
}

}  // namespace

void parse_line(std::string_view input) {
  std::string line;
  try {
    line = protocol::to_line(protocol::parse_line(input));
  } catch (const std::invalid_argument&) {
    return;
  }
  require(line.find('\n') == std::string::npos, "an event is one line");
  require(protocol::to_line(protocol::parse_line(line)) == line, "a written line reads as it was written");
}

void rank_stream(std::string_view input) {
  std::istringstream in{std::string(input)};
  const auto stream =
      reports::read_rank_stream(in, {.cases = 1000, .failures_per_case = 5, .measurements_per_case = 50});
  require(stream.start.has_value() || stream.cases.empty(), "no case without a first line");
  for (std::size_t i = 0; i + 1 < stream.cases.size(); ++i)
    require(stream.cases[i].ended.has_value(), "only the last case may be open");

  // The stream is merged as that of the second of two ranks, whatever its content.
  reports::testing::WorldRecord world;
  world.plan.size = 2;
  world.plan.nonce = stream.start ? stream.start->nonce : "";
  for (const auto& streamed : stream.cases) {
    world.plan.cases.push_back(streamed.started.id);
    world.cases.emplace_back().id = streamed.started.id;
  }
  world.streams = {{}, stream};
  world.endings = {{0, protocol::Ending::How::exited, 0, -1, ""}, {1, protocol::Ending::How::exited, 0, -1, ""}};
  const auto report = reports::testing::merge({}, std::span(&world, 1));
  for (const auto& result : report.cases)
    require(result.verdict != reports::Verdict::passed, "no case passes without its first rank");
  require(reports::exit_code(report) != 0, "nothing passes without its first rank");
  written(report);
}

void report(std::string_view input) {
  const auto report = read(input);
  if (!report) return;
  const auto text = written(*report);
  const auto json = nlohmann::ordered_json::parse(text);
  require(json == reports::to_json(*report) || text.find("null") != std::string::npos, "both writers write the same");
  require(written(reports::from_json(json)) == text, "both readers read the same");
  const auto stable = reports::stable_part(json);
  require(reports::stable_part(stable) == stable, "nothing volatile is left in a stable part");
  reports::TextStyle style;
  style.verbose = true;
  require(!reports::summary(*report, style).empty(), "there is always a last line");
  const int code = reports::exit_code(*report);
  require(code >= 0 && code <= 6 && code != 2, "the exit code is one of ours");
}

void diff(std::string_view input) {
  const auto nul = input.find('\0');
  const auto before = read(input.substr(0, nul));
  const auto after = nul == std::string_view::npos ? before : read(input.substr(nul + 1));
  if (!before || !after) return;
  const auto both = reports::diff(*before, *after);
  require(!reports::to_text(both, false).empty(), "a difference has a text");
  require(reports::to_json(both).at("changes").size() == both.changes.size(), "every case is listed");
  require(!reports::diff(*before, *before).regression(), "a report is no regression of itself");
}

void case_filter(std::string_view input) {
  const auto first = input.find('\n');
  const auto filter = input.substr(0, first);
  const auto rest = first == std::string_view::npos ? std::string_view() : input.substr(first + 1);
  const auto second = rest.find('\n');
  protocol::CaseInfo info;
  info.id = rest.substr(0, second);
  info.suite = info.id.substr(0, info.id.find('/'));
  if (second != std::string_view::npos) info.tags.emplace_back(rest.substr(second + 1));
  protocol::matches(info, filter);
  require(protocol::matches(info, "*"), "a star matches every id");
  if (info.id.find_first_of("*?") == std::string::npos && !info.id.starts_with('['))
    require(protocol::matches(info, info.id), "an id matches itself");
}

void scenario(std::string_view input) {
  Scenario read;
  try {
    read = parse_scenario(input);
  } catch (const std::invalid_argument&) {
    return;
  }
  const std::string text = nlohmann::ordered_json(read).dump();
  require(parse_scenario(text) == read, "a written scenario reads as it was written");
}

void waivers(std::string_view input) {
  std::vector<reports::Waiver> read;
  try {
    read = reports::parse_waivers(input);
  } catch (const std::invalid_argument&) {
    return;
  }
  require(reports::parse_waivers(nlohmann::ordered_json{{"waivers", read}}.dump()) == read,
          "written waivers read as they were written");

  reports::Report report;
  report.head.started = "2030-01-02T03:04:05Z";
  report.head.waivers = std::move(read);
  report.worlds.push_back(
      {.size = 1, .fabric = "shm", .device = "sim", .endings = {}, .defects = {}, .explanation = {}});
  for (const auto verdict : reports::all_verdicts) {
    auto& result = report.cases.emplace_back();
    result.info.id = "a/" + std::string(to_string(verdict));
    result.verdict = verdict;
    const bool passed = verdict == reports::Verdict::passed, skipped = verdict == reports::Verdict::skipped;
    using protocol::Outcome;
    result.ranks = {{passed ? Outcome::passed : skipped ? Outcome::skipped : Outcome::failed, 1}};
  }
  std::ranges::sort(report.cases, {}, [](const reports::CaseResult& result) { return result.info.id; });
  const auto before = report.counts();
  reports::apply_waivers(report);
  require(report.counts() == before, "no waiver changes a verdict");
  require(reports::exit_code(report) == reports::crashed_or_hung ||
              reports::exit_code(report) == reports::evidence_unusable,
          "no waiver excuses missing evidence");
  for (const auto& result : report.cases)
    require(result.waiver < 0 || is_waivable(result.verdict), "only what went wrong is waived");
  require(!reports::summary(report, {}).empty(), "there is always a last line");
  require(written(report) == written(reports::from_json(reports::to_json(report))),
          "a report with waivers reads as it was written");
}

void flight(std::string_view input) {
  protocol::FlightSnapshot snapshot;
  try {
    snapshot = base::parse_json(std::string(input)).get<protocol::FlightSnapshot>();
  } catch (const std::invalid_argument&) {
    return;
  } catch (const nlohmann::json::exception&) {
    return;  // no JSON
  }
  const nlohmann::ordered_json written = snapshot;
  require(nlohmann::ordered_json(written.get<protocol::FlightSnapshot>()) == written,
          "a flight record that is read is written so that it reads the same");
  const int size = static_cast<int>(std::clamp<std::size_t>(snapshot.ranks.size(), 1, 64));
  protocol::WorldPlan plan{.size = size, .cases = {"a/one", "a/two"}};
  std::vector<protocol::Ending> endings;
  for (int rank = 0; rank < size; ++rank) {
    endings.push_back({.rank = rank,
                       .how = rank % 2 == 0 ? protocol::Ending::How::overran : protocol::Ending::How::stopped,
                       .code = 0,
                       .position = rank % 3 - 1,
                       .text = ""});
  }
  require(!reports::explain(plan, endings, &snapshot).empty(), "a world that hangs is explained");
  reports::waits_text(snapshot);
}

void store_file(std::string_view input) {
  constexpr std::string_view nonce = "nonce";
  rendezvous::Value value;
  try {
    value = rendezvous::decode(input, nonce);
  } catch (const std::runtime_error&) {
    return;
  }
  require(rendezvous::encode(value, nonce) == input, "a value has one written form");
}

void gpu_listing(std::string_view input) {
  protocol::GpuListing listing;
  try {
    listing = base::parse_json(std::string(input)).get<protocol::GpuListing>();
  } catch (const std::invalid_argument&) {
    return;
  } catch (const nlohmann::json::exception&) {
    return;  // no JSON
  }
  require(nlohmann::ordered_json(listing).get<protocol::GpuListing>() == listing,
          "a list of GPUs that is written reads the same");
  require(listing.gpus.empty() != listing.why_none.empty(), "there are GPUs, or a reason why not");
  require(launcher::choose_gpus(listing.gpus, {}) == listing.gpus, "who chooses nothing has all");
  if (!listing.gpus.empty())
    require(launcher::choose_gpus(listing.gpus, {.count = 1}).size() == 1, "one can be chosen");
  launcher::gpu_facts(listing);
}

void nccl_record(std::string_view input) {
  protocol::TapRecord record;
  try {
    record = protocol::read_tap(std::as_bytes(std::span(input)), "input");
  } catch (const protocol::RecordError&) {
    return;
  }
  const auto was_begun = [&](const protocol::Call& call) { return call.number < record.begun; };
  require(std::ranges::all_of(record.calls, was_begun), "every call was begun");
  require(std::ranges::is_sorted(record.calls, std::ranges::less_equal(), &protocol::Call::number),
          "calls have numbers of their own, in order");
  require(!trace::list(record).empty(), "a record has a text");
  require(!reports::nccl_sentences(std::vector{record, record}, 2).empty(),
          "a record can be told, and compared with itself");
}

namespace {

/// A record of a rank, on two communicators, that went through a file.
class Tapped {
 public:
  explicit Tapped(int rank)
      : writer_(place_.path() / "calls.tap", {.pid = 1, .rank = rank, .started_ns = 1, .faults = {}},
                {.calls = 4, .communicators = 2}) {
    for (const int id : {0, 1}) {
      protocol::Communicator communicator;
      communicator.id = id;
      communicator.size = 2;
      communicator.rank = rank;
      communicator.key = id == 0 ? 7 : 0;
      writer_.write(communicator);
    }
  }
  void add(protocol::Call call) {
    writer_.enter(call);
    written_.push_back(call);
  }

  /// None: what was written is nothing that a tap writes, and was refused.
  std::optional<protocol::TapRecord> read() const {
    try {
      protocol::TapRecord record = protocol::read_tap(writer_.file());
      require(record.begun == written_.size(), "every call is counted");
      require(record.calls.size() == std::min<std::size_t>(written_.size(), 4), "the last ones are there");
      require(std::ranges::equal(record.calls, std::span(written_).last(record.calls.size()), is_same),
              "a call reads as it was written");
      return record;
    } catch (const protocol::RecordError&) {
      return std::nullopt;
    }
  }

 private:
  static bool is_same(const protocol::Call& a, const protocol::Call& b) {
    return a.number == b.number && a.place == b.place &&
           protocol::describe(a) + protocol::describe_outcome(a) ==
               protocol::describe(b) + protocol::describe_outcome(b);
  }

  const rendezvous::RendezvousDirectory place_ = rendezvous::RendezvousDirectory::make(1);
  protocol::TapWriter writer_;
  std::vector<protocol::Call> written_;
};

}  // namespace

void nccl_calls(std::string_view input) {
  Tapped first(0), second(1);
  constexpr std::size_t most = 12;
  for (std::size_t i = 0; i < most && input.size() >= sizeof(protocol::Call);
       ++i, input.remove_prefix(sizeof(protocol::Call))) {
    protocol::Call call;
    std::memcpy(static_cast<void*>(&call), input.data(), sizeof call);
    (i % 2 == 0 ? first : second).add(call);
  }
  std::vector<protocol::TapRecord> records;
  for (const Tapped* rank : {&first, &second}) {
    if (auto record = rank->read()) records.push_back(std::move(*record));
  }
  for (const protocol::TapRecord& record : records) require(!trace::list(record).empty(), "a record has a text");
  require(!reports::nccl_sentences(records, 2).empty(), "records can be told and compared");
}

void nccl_faults(std::string_view input) {
  std::vector<protocol::CallFault> faults;
  try {
    faults = protocol::parse_faults(input);
  } catch (const std::invalid_argument&) {
    return;
  }
  for (const protocol::CallFault& fault : faults) {
    const auto number = fault.number.value_or(0);
    const protocol::CallPlace place{.kind = fault.kind,
                                    .of_kind = number,
                                    .of_kind_on_comm = number,
                                    .comm = fault.comm.value_or(0),
                                    .rank = fault.rank};
    const auto decision = protocol::decide(std::span(&fault, 1), place);
    require(decision.fault == &fault || decision.delay + decision.stall == fault.duration,
            "a fault applies to the call that it names");
  }
}

void compiled_plan(std::string_view input) {
  std::vector<StepGraph> plan;
  try {
    plan = read_compiled_plan(input);
  } catch (const std::invalid_argument&) {
    return;
  }
  require(read_compiled_plan(write_compiled_plan(plan)) == plan, "a written compiled plan reads as it was written");
  for (const StepGraph& graph : plan) {
    objection_to(graph);
    require(!reports::to_text(graph).empty(), "a compiled pass has a text");
    const reports::TitledStepGraph titled{"", &graph};
    require(!reports::to_dot({&titled, 1}).empty(), "a compiled pass has a drawing");
  }
}

void link_message(std::string_view input) {
  namespace link = control::link;
  try {
    while (const auto body = link::first_frame(input)) {
      const std::string_view frame = input.substr(0, link::frame_header + body->size());
      require(link::encode(link::decode(*body)) == frame, "a message has one written form");
      input.remove_prefix(frame.size());
    }
  } catch (const link::BadMessage& bad) {
    require(!std::string_view(bad.what()).empty(), "a refusal says why");
  }
}

namespace {

/// Long texts are cut when they are written. So what was written once is stable.
template <class Message>
void guard_message_as(const nlohmann::ordered_json& json) {
  Message read;
  try {
    read = json.get<Message>();
  } catch (const std::invalid_argument&) {
    return;
  } catch (const nlohmann::json::exception&) {
    return;
  }
  const auto again = nlohmann::ordered_json(read).get<Message>();
  require(nlohmann::ordered_json(again).get<Message>() == again, "a message of a guard reads as it was written");
}

}  // namespace

void guard_message(std::string_view input) {
  nlohmann::ordered_json json;
  try {
    json = base::parse_json(input);
  } catch (const std::invalid_argument&) {
    return;
  } catch (const nlohmann::json::exception&) {
    return;
  }
  guard_message_as<launcher::GuardReport>(json);
  guard_message_as<launcher::GuardRequest>(json);
}

void hub_addresses(std::string_view input) {
  namespace link = control::link;
  const auto written = [](const std::vector<link::Address>& addresses) {
    std::string text;
    for (const link::Address& address : addresses) text += link::to_string(address) + ' ';
    return text;
  };
  std::vector<link::Address> addresses;
  try {
    addresses = link::parse_addresses(input);
  } catch (const std::invalid_argument&) {
    return;
  }
  const std::string text = written(addresses);
  require(written(link::parse_addresses(text)) == text, "addresses read as they were written");
  for (const link::Address& address : addresses)
    require(!link::host_of(address.bytes).empty(), "a host has an address");
}

}  // namespace shardproof::fuzz

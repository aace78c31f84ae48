#include "harness/control/link/message.hpp"

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace shardproof;
using namespace shardproof::control::link;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

protocol::FlightRecord sample_record() {
  protocol::FlightRecord record;
  record.entries.push_back({.what = protocol::FlightEntry::What::case_begun, .place = 3, .since_ns = 5});
  protocol::FlightEntry& call = record.entries.emplace_back();
  call.state = protocol::FlightEntry::State::given_up;
  call.place = 4;
  call.group = 77;
  call.since_ns = -1;
  call.meetings = 2;
  call.call.sequence = 17;
  call.call.count = 276;
  call.call.factor = 0.125;
  call.call.root = 2;
  call.call.kind = CollectiveKind::broadcast;
  call.call.dtype = DType::bf16;
  call.call.op = ReduceOp::premul_sum;
  call.call.enforces_tag = true;
  call.call.set_tag("layers.1");
  record.groups.push_back({.id = 77, .name = "dp", .members = {0, 2, 1023}});
  record.begun = 40;
  record.case_begun = 3;
  record.is_writing = true;
  return record;
}

/// One of each kind, in the order of the kinds.
std::vector<Message> samples() {
  const control::Abort abort{.culprit = -1, .reason = control::AbortReason::disagreed, .text = "why"};
  Bytes32 nonce{}, mac{};
  nonce[0] = 255;
  mac[31] = 1;
  return {Challenge{nonce},
          Proof{nonce, mac},
          Welcome{mac},
          Hello{.world_size = 4, .host = "node-1", .ranks = {0, 3}, .watches = true},
          Start{.hosts = {"a", "b", "a"}, .clock_offset_ns = -12},
          Ping{9},
          Pong{9, -7},
          Votes{8, {{1, ""}, {2, "text"}}},
          Decided{8, {{1, ""}, {2, "text"}, {3, ""}}},
          AbortRaised{7, 6, abort},
          Aborted{6, abort},
          DoomRaised{abort},
          Doomed{abort},
          ProgressOf{2, {.pid = 5, .cases_ended = 6, .cases_failed = 7, .position = -1, .case_started_ns = 9}},
          Ended{{.rank = 2,
                 .signalled = true,
                 .code = 9,
                 .asked_by = protocol::RankEnd::AskedBy::launcher,
                 .asked_signal = 15,
                 .lacked_memory = true,
                 .stream_bytes = 1,
                 .standard_output_bytes = 2,
                 .standard_error_bytes = 3,
                 .last_words = "terminate called"}},
          AllEnded{},
          HostLost{"node-1", {4, 5}, "end of the connection", true},
          Waits{},
          Probe{3},
          ProbeReply{3, true},
          FlightWanted{},
          Flight{3, 5, sample_record()},
          Note{"{}"},
          Bye{"no"}};
}

std::string body_of(const Message& message) {
  const std::string frame = encode(message);
  const auto body = first_frame(frame);
  REQUIRE(body);
  return std::string(*body);
}

std::string body(std::initializer_list<unsigned char> bytes) { return {bytes.begin(), bytes.end()}; }

void check_refused(std::string_view bytes, const std::string& why) {
  CAPTURE(why);
  CHECK_THROWS_MATCHES(decode(bytes), BadMessage, MessageMatches(ContainsSubstring(why)));
}

}  // namespace

TEST_CASE("a message of each kind reads as it was written") {
  const std::vector<Message> all = samples();
  REQUIRE(all.size() == std::variant_size_v<Message>);
  for (std::size_t kind = 0; kind < all.size(); ++kind) {
    CAPTURE(name_of(all[kind]));
    REQUIRE(all[kind].index() == kind);
    const std::string written = encode(all[kind]);
    const Message read = decode(body_of(all[kind]));
    CHECK(read.index() == kind);
    CHECK(encode(read) == written);
  }
  const auto flight = std::get<Flight>(decode(body_of(Flight{3, 5, sample_record()})));
  const auto wanted = sample_record();
  REQUIRE(flight.record.entries.size() == 2);
  CHECK(protocol::describe(flight.record.entries[1], flight.record) == protocol::describe(wanted.entries[1], wanted));
  CHECK(flight.record.entries[1].call.factor == 0.125);
  CHECK(flight.record.groups[0].members == std::vector{0, 2, 1023});
  CHECK(flight.record.case_begun == 3);
  const auto abort = std::get<Aborted>(decode(body_of(Aborted{6, {-1, control::AbortReason::no_room, "why"}})));
  CHECK((abort.epoch == 6 && abort.abort.culprit == -1 && abort.abort.reason == control::AbortReason::no_room &&
         abort.abort.text == "why"));
}

TEST_CASE("no beginning of a message is a message, and nothing may follow it") {
  for (const Message& message : samples()) {
    CAPTURE(name_of(message));
    const std::string whole = body_of(message);
    for (std::size_t size = 0; size < whole.size(); ++size)
      CHECK_THROWS_AS(decode(std::string_view(whole).substr(0, size)), BadMessage);
    check_refused(whole + "x", "1 bytes after its end");
  }
}

TEST_CASE("hostile bytes are refused with a text that names the message") {
  check_refused(body({2, 0}), "version 2 of the messages between hosts, this build has 1");
  check_refused(body({version, 200}), "unknown kind 200");
  check_refused(body({version, 17, 0}), "in a message Waits: 1 bytes after its end");
  // A list of 4294967295 ranks needs no memory.
  check_refused(body({version, 16, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}),
                "a list of 4294967295; at most 1024 are allowed");
  check_refused(body({version, 16, 0, 0, 0, 0, 1, 0, 0, 0, 0, 4, 0, 0}), "1024 is not a rank");
  check_refused(body({version, 16, 0, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}), "-1 is not a rank");
  check_refused(body({version, 23, 0xff, 0xff, 0, 0}), "a text of 65535; at most 1024 are allowed");
  std::string doomed = body_of(Doomed{});
  doomed[2 + 4] = 9;
  check_refused(doomed, "9 where the last known value is 8");
  std::string reply = body_of(ProbeReply{});
  reply.back() = 2;
  check_refused(reply, "2 in the place of a truth value");
}

TEST_CASE("a frame is whole or not there yet, and its length is bounded") {
  const std::string two = encode(Ping{1}) + encode(Bye{"x"});
  const std::size_t first = encode(Ping{1}).size();
  for (std::size_t size = 0; size < first; ++size) CHECK_FALSE(first_frame(std::string_view(two).substr(0, size)));
  REQUIRE(first_frame(two));
  CHECK(first_frame(two)->size() == first - frame_header);
  CHECK_THROWS_AS(first_frame(std::string("\xff\xff\xff\xff", 4)), BadMessage);
  CHECK_THROWS_AS(first_frame(std::string("GET / HTTP/1.1")), BadMessage);
  CHECK_THROWS_AS(first_frame(std::string("\1\0\0\0x", 5)), BadMessage);
  CHECK_THROWS_MATCHES(first_frame(std::string("\x01\x01\0\0", 4), 256), BadMessage,
                       MessageMatches(ContainsSubstring("a message of 257 bytes; 2 to 256 are allowed")));
}

TEST_CASE("long texts are cut, long lists are an error, and the largest messages fit") {
  const std::string long_text(5000, 'x');
  CHECK(std::get<Doomed>(decode(body_of(Doomed{{0, control::AbortReason::died, long_text}}))).abort.text ==
        std::string(512, 'x'));
  CHECK(std::get<Bye>(decode(body_of(Bye{long_text}))).why == std::string(1024, 'x'));
  CHECK_THROWS_AS(encode(HostLost{.host = "h", .ranks = std::vector<int>(1025)}), std::invalid_argument);
  const std::vector<control::Ballot> ballots(1024, {1, std::string(256, 'y')});
  CHECK(std::get<Decided>(decode(body_of(Decided{1, ballots}))).ballots.size() == 1024);
  CHECK(std::get<Start>(decode(body_of(Start{.hosts = std::vector<std::string>(1024, std::string(256, 'h'))})))
            .hosts.size() == 1024);
  Flight flight{.record = sample_record()};
  flight.record.entries.resize(32, flight.record.entries[1]);
  flight.record.groups.resize(16, {.id = 1, .name = std::string(40, 'g'), .members = std::vector<int>(1024, 7)});
  CHECK(std::get<Flight>(decode(body_of(flight))).record.groups.size() == 16);
}

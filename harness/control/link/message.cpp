#include "harness/control/link/message.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

#include "harness/base/utf8.hpp"
#include "harness/protocol/failure_text.hpp"

namespace shardproof::control::link {

namespace {

constexpr std::size_t most_ranks = ControlPlane::max_world_size;
constexpr std::size_t host_limit = 256, ballot_limit = 256, why_limit = 1024, last_words_limit = 512,
                      group_name_limit = 40;
constexpr std::size_t entries_limit = 64, groups_limit = 64;

/// Writes fields. Numbers are little-endian.
class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}

  template <std::integral T>
  void number(T value) {
    auto bits = static_cast<std::uint64_t>(value);
    for (std::size_t byte = 0; byte < sizeof(T); ++byte, bits >>= 8U) out_ += static_cast<char>(bits & 0xffU);
  }
  void real(double value) { number(std::bit_cast<std::uint64_t>(value)); }
  void flag(bool value) { number(static_cast<std::uint8_t>(value)); }
  template <class Enum>
  void choice(Enum value, Enum /*last*/) {
    number(static_cast<std::uint8_t>(value));
  }
  void text(std::string_view value, std::size_t most) {
    const std::string_view cut = base::beginning_within(value, most);
    number(static_cast<std::uint32_t>(cut.size()));
    out_ += cut;
  }
  void bytes(const Bytes32& value) {
    for (const std::uint8_t byte : value) number(byte);
  }
  void rank(int value) { number(value); }
  template <class List, class Each>
  void list(const List& values, std::size_t most, const Each& each) {
    if (values.size() > most)
      throw std::invalid_argument(fmt::format("a message with a list of {}; at most {} fit", values.size(), most));
    number(static_cast<std::uint32_t>(values.size()));
    for (const auto& value : values) each(value);
  }

 private:
  std::string& out_;
};

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}

  template <std::integral T>
  void number(T& value) {
    std::uint64_t bits = 0;
    const std::string_view taken = take(sizeof(T));
    for (std::size_t byte = sizeof(T); byte > 0; --byte)
      bits = bits << 8U | static_cast<unsigned char>(taken[byte - 1]);
    value = static_cast<T>(bits);
  }
  void real(double& value) {
    std::uint64_t bits = 0;
    number(bits);
    value = std::bit_cast<double>(bits);
  }
  void flag(bool& value) {
    std::uint8_t byte = 0;
    number(byte);
    if (byte > 1) throw BadMessage(fmt::format("{} in the place of a truth value", byte));
    value = byte == 1;
  }
  template <class Enum>
  void choice(Enum& value, Enum last) {
    std::uint8_t byte = 0;
    number(byte);
    if (byte > static_cast<std::uint8_t>(last))
      throw BadMessage(fmt::format("{} where the last known value is {}", byte, static_cast<std::uint8_t>(last)));
    value = static_cast<Enum>(byte);
  }
  void text(std::string& value, std::size_t most) { value = take(length(most, "a text")); }
  void bytes(Bytes32& value) {
    for (std::uint8_t& byte : value) number(byte);
  }
  void rank(int& value) {
    number(value);
    if (value < 0 || value >= ControlPlane::max_world_size) throw BadMessage(fmt::format("{} is not a rank", value));
  }
  template <class List, class Each>
  void list(List& values, std::size_t most, const Each& each) {
    const std::size_t size = length(most, "a list");
    values.clear();
    while (values.size() < size) each(values.emplace_back());
  }
  void expect_end() const {
    if (!in_.empty()) throw BadMessage(fmt::format("{} bytes after its end", in_.size()));
  }

 private:
  std::size_t length(std::size_t most, std::string_view what) {
    std::uint32_t length = 0;
    number(length);
    if (length > most) throw BadMessage(fmt::format("{} of {}; at most {} are allowed", what, length, most));
    return length;
  }
  std::string_view take(std::size_t size) {
    if (in_.size() < size) throw BadMessage("its end is missing");
    const std::string_view taken = in_.substr(0, size);
    in_.remove_prefix(size);
    return taken;
  }

  std::string_view in_;
};

/// T or const T: a writer reads fields, and a reader writes them.
template <class M, class T>
concept Of = std::same_as<std::remove_const_t<M>, T>;

// -- The fields of each message, in their order -----------------------------------------------------------------------

void rank_list(auto& io, auto& ranks) {
  io.list(ranks, most_ranks, [&](auto& rank) { io.rank(rank); });
}

void abort_fields(auto& io, auto& abort) {
  io.number(abort.culprit);
  io.choice(abort.reason, AbortReason::no_room);
  io.text(abort.text, protocol::abort_text_limit);
}

void ballot_list(auto& io, auto& ballots) {
  io.list(ballots, most_ranks, [&](auto& ballot) {
    io.number(ballot.value);
    io.text(ballot.text, ballot_limit);
  });
}

void write_tag(Writer& io, const Descriptor& call) { io.text(call.tag_view(), Descriptor::tag_capacity - 1); }
void read_tag(Reader& io, Descriptor& call) {
  std::string tag;
  io.text(tag, Descriptor::tag_capacity - 1);
  if (tag.find('\0') != std::string::npos) throw BadMessage("a tag with a NUL");
  call.set_tag(tag);
}

void call_fields(auto& io, auto& call) {
  io.number(call.sequence);
  io.number(call.count);
  io.number(call.ready_ns);
  io.real(call.factor);
  io.number(call.root);
  io.choice(call.kind, CollectiveKind::coalesced);
  io.choice(call.dtype, DType::u8);
  io.choice(call.op, ReduceOp::min);
  io.flag(call.enforces_tag);
  if constexpr (requires { io.expect_end(); }) {
    read_tag(io, call);
  } else {
    write_tag(io, call);
  }
}

void record_fields(auto& io, auto& record) {
  io.list(record.entries, entries_limit, [&](auto& entry) {
    io.choice(entry.what, protocol::FlightEntry::What::left);
    io.choice(entry.state, protocol::FlightEntry::State::refused);
    io.number(entry.place);
    io.number(entry.group);
    io.number(entry.since_ns);
    io.number(entry.meetings);
    if (entry.what == protocol::FlightEntry::What::call) call_fields(io, entry.call);
  });
  io.list(record.groups, groups_limit, [&](auto& group) {
    io.number(group.id);
    io.text(group.name, group_name_limit);
    rank_list(io, group.members);
  });
  io.number(record.begun);
  bool has_case = record.case_begun.has_value();
  io.flag(has_case);
  if (has_case) {
    std::uint64_t place = record.case_begun.value_or(0);
    io.number(place);
    if constexpr (requires { io.expect_end(); }) record.case_begun = place;
  }
  io.flag(record.is_writing);
}

void fields(auto& io, Of<Challenge> auto& message) { io.bytes(message.nonce); }
void fields(auto& io, Of<Proof> auto& message) {
  io.bytes(message.nonce);
  io.bytes(message.mac);
}
void fields(auto& io, Of<Welcome> auto& message) { io.bytes(message.mac); }
void fields(auto& io, Of<Hello> auto& message) {
  io.number(message.world_size);
  io.text(message.host, host_limit);
  rank_list(io, message.ranks);
  io.flag(message.watches);
}
void fields(auto& io, Of<Start> auto& message) {
  io.list(message.hosts, most_ranks, [&](auto& host) { io.text(host, host_limit); });
  io.number(message.clock_offset_ns);
}
void fields(auto& io, Of<Ping> auto& message) { io.number(message.number); }
void fields(auto& io, Of<Pong> auto& message) {
  io.number(message.number);
  io.number(message.now_ns);
}
void fields(auto& io, Of<Votes> auto& message) {
  io.number(message.round);
  ballot_list(io, message.ballots);
}
void fields(auto& io, Of<Decided> auto& message) {
  io.number(message.round);
  ballot_list(io, message.ballots);
}
void fields(auto& io, Of<AbortRaised> auto& message) {
  io.number(message.decided);
  io.number(message.epoch);
  abort_fields(io, message.abort);
}
void fields(auto& io, Of<Aborted> auto& message) {
  io.number(message.epoch);
  abort_fields(io, message.abort);
}
void fields(auto& io, Of<DoomRaised> auto& message) { abort_fields(io, message.abort); }
void fields(auto& io, Of<Doomed> auto& message) { abort_fields(io, message.abort); }
void fields(auto& io, Of<ProgressOf> auto& message) {
  io.rank(message.rank);
  io.number(message.progress.pid);
  io.number(message.progress.cases_ended);
  io.number(message.progress.cases_failed);
  io.number(message.progress.position);
  io.number(message.progress.case_started_ns);
  io.flag(message.progress.left);
}
void fields(auto& io, Of<Ended> auto& message) {
  auto& end = message.end;
  io.rank(end.rank);
  io.flag(end.signalled);
  io.number(end.code);
  io.choice(end.asked_by, protocol::RankEnd::AskedBy::foreign_launcher);
  io.number(end.asked_signal);
  io.flag(end.lacked_memory);
  io.number(end.stream_bytes);
  io.number(end.standard_output_bytes);
  io.number(end.standard_error_bytes);
  io.text(end.last_words, last_words_limit);
}
void fields(auto& /*io*/, Of<AllEnded> auto& /*message*/) {}
void fields(auto& io, Of<HostLost> auto& message) {
  io.text(message.host, host_limit);
  rank_list(io, message.ranks);
  io.text(message.why, why_limit);
  io.flag(message.is_silent);
}
void fields(auto& /*io*/, Of<Waits> auto& /*message*/) {}
void fields(auto& io, Of<Probe> auto& message) { io.number(message.number); }
void fields(auto& io, Of<ProbeReply> auto& message) {
  io.number(message.number);
  io.flag(message.all_wait);
}
void fields(auto& /*io*/, Of<FlightWanted> auto& /*message*/) {}
void fields(auto& io, Of<Flight> auto& message) {
  io.number(message.probe);
  io.rank(message.rank);
  record_fields(io, message.record);
}
void fields(auto& io, Of<Note> auto& message) { io.text(message.text, longest_note); }
void fields(auto& io, Of<Bye> auto& message) { io.text(message.why, why_limit); }

/// In the order of the kinds.
constexpr std::string_view names[] = {
    "Challenge", "Proof",       "Welcome", "Hello",      "Start",        "Ping",       "Pong",  "Votes",
    "Decided",   "AbortRaised", "Aborted", "DoomRaised", "Doomed",       "ProgressOf", "Ended", "AllEnded",
    "HostLost",  "Waits",       "Probe",   "ProbeReply", "FlightWanted", "Flight",     "Note",  "Bye"};
static_assert(std::size(names) == std::variant_size_v<Message>);

template <std::size_t kind = 0>
Message read_fields(std::size_t wanted, Reader& reader) {
  if constexpr (kind < std::variant_size_v<Message>) {
    if (kind != wanted) return read_fields<kind + 1>(wanted, reader);
    std::variant_alternative_t<kind, Message> message;
    fields(reader, message);
    return message;
  } else {
    throw BadMessage(fmt::format("unknown kind {}", wanted));
  }
}

}  // namespace

std::string encode(const Message& message) {
  std::string frame(frame_header, '\0');
  Writer writer(frame);
  writer.number(version);
  writer.number(static_cast<std::uint8_t>(message.index()));
  std::visit([&](const auto& one) { fields(writer, one); }, message);
  const std::size_t length = frame.size() - frame_header;
  if (length > most_bytes)
    throw std::invalid_argument(
        fmt::format("a message {} of {} bytes; at most {} fit", name_of(message), length, most_bytes));
  for (std::size_t byte = 0; byte < frame_header; ++byte) frame[byte] = static_cast<char>(length >> 8 * byte & 0xffU);
  return frame;
}

Message decode(std::string_view body) {
  Reader reader(body);
  std::uint8_t theirs = 0, kind = 0;
  reader.number(theirs);
  if (theirs != version) {
    throw BadMessage(
        fmt::format("version {} of the messages between hosts, this build has {}; use one build of "
                    "shardproof on all hosts",
                    theirs, version));
  }
  reader.number(kind);
  try {
    Message message = read_fields(kind, reader);
    reader.expect_end();
    return message;
  } catch (const BadMessage& bad) {
    if (kind >= std::size(names)) throw;
    throw BadMessage(fmt::format("in a message {}: {}", names[kind], bad.what()));
  }
}

std::optional<std::string_view> first_frame(std::string_view received, std::size_t most) {
  if (received.size() < frame_header) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t byte = frame_header; byte > 0; --byte)
    length = length << 8U | static_cast<unsigned char>(received[byte - 1]);
  if (length < 2 || length > most)
    throw BadMessage(fmt::format("a message of {} bytes; 2 to {} are allowed", length, most));
  if (received.size() - frame_header < length) return std::nullopt;
  return received.substr(frame_header, length);
}

std::string_view name_of(const Message& message) { return names[message.index()]; }

}  // namespace shardproof::control::link

// Message is what the pages of several hosts and their hub send each other. Each message is one struct. This file has
// the structs and their bytes, and no I/O.
//
// A connection begins with Challenge, Proof and Welcome: both sides prove that they know the secret of the world. Then
// the page's side says Hello, or a guard sends a Note. On each connection messages arrive in the order in which they
// were sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/control/abort.hpp"
#include "harness/control/control_plane.hpp"
#include "harness/protocol/flight_record.hpp"
#include "harness/protocol/rank_end.hpp"

namespace shardproof::control::link {

using Bytes32 = std::array<std::uint8_t, 32>;

// -- A connection begins ----------------------------------------------------------------------------------------------

/// From the hub.
struct Challenge {
  Bytes32 nonce{};
};
/// From a page: the answer to the challenge, and the page's own challenge.
struct Proof {
  Bytes32 nonce{}, mac{};
};
/// From the hub: the answer to the page's challenge.
struct Welcome {
  Bytes32 mac{};
};
/// From a page.
struct Hello {
  int world_size = 0;
  std::string host;
  std::vector<int> ranks;  ///< The ranks of this host, ascending. Empty for a launcher without ranks.
  bool watches = false;  ///< This page wants the progress, the ends and the flight records of all ranks.
};
/// From the hub, once all ranks have a page. Only now may ranks start.
struct Start {
  std::vector<std::string> hosts;  ///< of each rank
  /// Add it to a time of the page's host, to have the time of the hub's host. Both are CLOCK_MONOTONIC.
  std::int64_t clock_offset_ns = 0;
};

// -- Clocks and silence -----------------------------------------------------------------------------------------------

struct Ping {
  std::uint64_t number = 0;
};
struct Pong {
  std::uint64_t number = 0;
  std::int64_t now_ns = 0;  ///< CLOCK_MONOTONIC of the page's host
};

// -- Agreement, abort, doom. Pages propose, and the hub decides -------------------------------------------------------

/// All ranks of a page have voted.
struct Votes {
  std::uint64_t round = 0;
  std::vector<Ballot> ballots;  ///< in the order of the page's ranks
};
struct Decided {
  std::uint64_t round = 0;
  std::vector<Ballot> ballots;  ///< of all ranks
};
struct AbortRaised {
  std::uint64_t decided = 0;  ///< The last round that was decided on this page. The hub drops a late proposal.
  std::uint32_t epoch = 0;
  Abort abort;
};
struct Aborted {
  std::uint32_t epoch = 0;
  Abort abort;
};
struct DoomRaised {
  Abort abort;
};
struct Doomed {
  Abort abort;
};

// -- Ranks ------------------------------------------------------------------------------------------------------------

struct ProgressOf {
  int rank = 0;
  Progress progress;
};
/// The end of a rank, as its guard saw it. The hub gives it to the pages that watch: to give it to all pages takes as
/// many messages as ranks times hosts.
struct Ended {
  protocol::RankEnd end;
};
/// From the hub: every rank has ended, or its host was lost.
struct AllEnded {};
/// From the hub. `ranks` had not ended.
struct HostLost {
  std::string host;
  std::vector<int> ranks;
  std::string why;
  bool is_silent = false;  ///< The host sent nothing for too long. False: its connection ended.
};

// -- Deadlock and flight records --------------------------------------------------------------------------------------

/// All ranks of a page wait, and have done nothing since the page's last look.
struct Waits {};
/// The page answers with the flight record of each of its ranks, and then with a ProbeReply.
struct Probe {
  std::uint64_t number = 0;
};
struct ProbeReply {
  std::uint64_t number = 0;
  bool all_wait = false;  ///< False: the page has sent no flight records.
};
/// A page that watches wants the flight records of all ranks now.
struct FlightWanted {};
struct Flight {
  std::uint64_t probe = 0;  ///< 0: not the answer to a probe
  int rank = 0;
  protocol::FlightRecord record;
};

// -- Guards -----------------------------------------------------------------------------------------------------------

/// Between the launcher and the guard of one rank, which is no page. A hub gives such a connection to its owner.
struct Note {
  std::string text;
};

/// From the hub, as its last message: why it refuses the page.
struct Bye {
  std::string why;
};

using Message = std::variant<Challenge, Proof, Welcome, Hello, Start, Ping, Pong, Votes, Decided, AbortRaised, Aborted,
                             DoomRaised, Doomed, ProgressOf, Ended, AllEnded, HostLost, Waits, Probe, ProbeReply,
                             FlightWanted, Flight, Note, Bye>;

// -- Bytes ------------------------------------------------------------------------------------------------------------

/// Bytes that are not a message of this version. The text says what is wrong with them.
class BadMessage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline constexpr std::size_t frame_header = 4, most_bytes = std::size_t{1} << 20U;
inline constexpr std::size_t longest_note = std::size_t{32} << 10U;
inline constexpr std::uint8_t version = 1;

/// A frame: its length in four bytes, then the version, the kind and the fields of the message. Texts are cut to their
/// limits. Throws std::invalid_argument for a list that is longer than a world can have.
std::string encode(const Message& message);

/// The message in a frame without its length. Throws BadMessage.
Message decode(std::string_view body);

/// The bytes of the first frame in `received`, without its length. nullopt: more bytes are needed. Throws BadMessage
/// for a length that no message has, or that is over `most`.
std::optional<std::string_view> first_frame(std::string_view received, std::size_t most = most_bytes);

/// The name of a message, for texts.
std::string_view name_of(const Message& message);

}  // namespace shardproof::control::link

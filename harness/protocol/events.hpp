// Rank events are the lines that a rank appends to its own stream. Each is one JSON object, flushed per line. They are
// all that survives a rank that dies.
//
// The room `protocol` has the documents and event lines that launcher, ranks and reports exchange, with their JSON.
// Code that acts on a document may not enter: an analysis belongs to `trace` or `reports`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "harness/protocol/clock_pair.hpp"

namespace shardproof::protocol {

/// A rank's own view of how a case ended for it. A rank never reports `hung`, `crashed` or `missing` itself: a merge
/// concludes them.
enum class Outcome : std::uint8_t { passed, failed, error, released, skipped, hung, crashed, missing };

std::string_view to_string(Outcome outcome);
std::optional<Outcome> outcome_from_string(std::string_view text);

namespace event {

/// A longer text is cut, with a note of how many bytes are left out. So a failed comparison of large values leaves the
/// stream readable.
inline constexpr std::size_t text_limit = 16 * 1024;
inline constexpr std::size_t messages_limit = 64;
/// No writer makes a longer line, so a reader never has to hold more. It fits every text at its limit, each byte
/// escaped as `\u0000`.
inline constexpr std::size_t line_limit = 8 * 1024 * 1024;

struct RankStarted {
  int rank = 0;
  int world_size = 0;
  std::int64_t pid = 0;
  std::string host;  ///< Its name, for people.
  std::string nonce;
  std::string suite_version;
  std::string build;
  int protocol = 0;
  /// Equal on all ranks of a host, and on no other host. Empty: not known.
  std::string host_id;
  /// For a rank on a GPU: the GPU, as the rank's `CUDA_VISIBLE_DEVICES` names it. Empty: not known, or no GPU.
  std::string gpu;
  std::vector<std::string> interfaces;  ///< The first network interfaces of the host that are up.
  /// The clocks of the host at this moment. They convert times of this stream for comparisons with other hosts.
  std::optional<ClockPair> clocks;
};

/// `position` is the place in the plan, from 0. It distinguishes repetitions of one case.
struct CaseStarted {
  std::string id;
  std::uint64_t position = 0;
  std::int64_t monotonic_ns = 0;
};

struct AssertionFailed {
  std::string file;
  int line = 0;
  /// CHECK, REQUIRE, …, or a check of the harness (failure_text.hpp). Empty for an unexpected exception.
  std::string macro;
  std::string expression;  ///< As written in the source.
  std::string expansion;  ///< With values.
  std::vector<std::string> messages;  ///< INFO and CAPTURE messages, oldest first.
  std::vector<std::string> clauses;  ///< Clauses that the failure breaks: its scope's, else the case's.
  /// CLOCK_MONOTONIC of the rank's host. The earliest failure over all ranks is the first cause.
  std::int64_t monotonic_ns = 0;
};

/// A value that is not finite travels as null and reads back as NaN.
struct Measured {
  std::string name;
  double value = 0;
  std::string unit;
};

struct CaseEnded {
  std::string id;
  std::uint64_t position = 0;
  Outcome outcome = Outcome::passed;
  std::uint64_t assertions = 0;
  std::string reason;  ///< For a skip, an error or a release.
  /// The rank that skipped, failed or died and so released this rank. -1: no rank.
  int culprit = -1;
  std::int64_t duration_ns = 0;
  bool unclaimed = false;  ///< For a skip: the subject does not claim a needed feature.
  /// Features and ingredients that the case played together, where the case reports them.
  std::vector<std::string> combined;
};

/// The rank left its world in order.
struct RankEnded {
  int rank = 0;
  /// The reason why all ranks left together before the end of their plan. Empty: they reached its end.
  std::string cut_short;
  /// True if the ranks left because the last case changed its process. Else a part of the machine may be faulty.
  bool is_by_case = false;
};

}  // namespace event

using RankEvent = std::variant<event::RankStarted, event::CaseStarted, event::AssertionFailed, event::Measured,
                               event::CaseEnded, event::RankEnded>;

/// Makes one line without its newline.
std::string to_line(const RankEvent& event);

/// Throws std::invalid_argument, which says what is wrong: not JSON, no known `event`, or a field that is missing or of
/// another type.
RankEvent parse_line(std::string_view line);

}  // namespace shardproof::protocol
